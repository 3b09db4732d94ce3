"""The teacher of a run that is distilled, as its training step gets it: weights, or outputs that were computed once.

Where a record has one output, there may be several teachers, of which the mean is learnt (of logits, so that the
student's classes are as likely as in the geometric mean); where it is computed once, each may have a tokenizer of its
own.
"""

import dataclasses
import functools
import hashlib
import logging
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import adapters
from lwt.runs import evaluation

LOG = logging.getLogger(__name__)
OUTPUTS = "teacher/outputs"


@dataclasses.dataclass(frozen=True)
class Teacher:
    """What is asked and not trained: a model, or the mean of several.

    Attributes:
        models: linen modules.
        leaves: flat dict of frozen leaves of the step: the weights ``teacher/I/...`` of model I; or `OUTPUTS`
            `[n ...]`, one for every training record.
        fingerprint: of the weights.
    """

    models: tuple[nn.Module, ...]
    leaves: dict
    fingerprint: str

    def apply(self, frozen):
        """Its `apply` with the weights among the step's `frozen` leaves bound; from a table, it looks up the records
        of a batch by ``example`` `[b]`."""
        if OUTPUTS in frozen:
            return lambda batch, **_: frozen[OUTPUTS][batch["example"]]
        asked = [
            functools.partial(model.apply, {"params": trees.unflatten(trees.subtree(frozen, f"teacher/{i}"))})
            for i, model in enumerate(self.models)
        ]
        if len(asked) == 1:
            return asked[0]
        return lambda *args, **options: sum(apply(*args, **options) for apply in asked) / len(asked)


def make(found, data, workdir, *, mesh, cache, layers=False):
    """The `Teacher` of a run on `data`.

    Args:
        found: the opened runs to learn from, `experiment.Experiment`s.
        workdir: of the run that learns; tables of outputs are kept there.
        mesh: where the outputs are computed.
        cache: whether to make a table, if the data can say what its training records are.
        layers: whether layers are compared, for which there is no table.

    Raises:
        lwt.errors.ConfigError: a teacher has other classes; or, without a table, another tokenizer; or it is one of
            several, and a record has more than one output, or layers are compared.
    """
    once = cache and not layers and hasattr(data, "training_set")
    _check(found, data, once=once, layers=layers)
    weights = [linear.merge(run.weights) for run in found]
    prints = [adapters.fingerprint(x) for x in weights]
    if once:
        outputs = [_outputs(run, *rest, data, workdir, mesh) for run, *rest in zip(found, weights, prints, strict=True)]
        leaves = {OUTPUTS: jnp.asarray(np.mean(outputs, axis=0))}
    else:
        leaves = {f"teacher/{i}/{name}": w for i, run in enumerate(weights) for name, w in run.items()}
    print_ = prints[0] if len(prints) == 1 else hashlib.sha256(" ".join(prints).encode()).hexdigest()
    return Teacher(tuple(run.model for run in found), leaves, print_)


def _check(found, data, *, once, layers):
    if len(found) > 1 and (layers or not hasattr(data, "labels")):
        raise errors.ConfigError(
            f"task.teacher names {len(found)} runs; several can teach where a record has one output, a class or a "
            "number, and no layers are compared (task.hidden, task.attention)"
        )
    classes = tuple(data.labels.names) if hasattr(data, "labels") else ()
    for run in found:
        mine, theirs = (x.tokenizer.fingerprint if x.tokenizer else "" for x in (data, run))
        if mine != theirs and not once:
            raise errors.ConfigError(
                f"task.teacher={run.workdir} has another tokenizer (fingerprint {theirs:.12}) than this run "
                f"({mine:.12}); a new run takes it over by data.tokenizer.path={run.workdir}/tokenizer.model, or, of "
                "labelled texts, lets each have its own by task.cache=True"
            )
        if classes != tuple(run.labels):
            raise errors.ConfigError(
                f"task.teacher={run.workdir} tells the classes {', '.join(run.labels) or '(none)'} apart, and not "
                f"{', '.join(classes) or '(none)'}"
            )


def _outputs(found, weights, print_, data, workdir, mesh):
    """What the teacher says of every training record, `[n ...]` float32; from the workdir, if it is there."""
    records = data.training_set(found.data)
    key = hashlib.sha256(f"{print_} {records.examples.fingerprint} {len(records.examples)}".encode()).hexdigest()
    path = os.path.join(workdir, f"teacher_{key[:16]}.npy")
    if os.path.exists(path):
        return np.load(path)
    LOG.info("asking the teacher %s about %d training records, once", found.workdir, len(records.examples))
    batches = found.data.batches(records, process=jax.process_index(), processes=jax.process_count())
    asked = evaluation.Evaluator(found.task, found.model, mesh)
    outputs = asked.predictions(weights, batches, len(records.examples))
    if jax.process_index() == 0:
        with open(f"{path}.part", "wb") as file:
            np.save(file, outputs)
        os.replace(f"{path}.part", path)
    return outputs
