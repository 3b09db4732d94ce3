"""Distillation's teacher, as the training step gets it: weights, or a table of outputs computed once.

Where a record has one output, several teachers may teach; the student learns from the mean of their logits, so that
class probabilities are as in their geometric mean. With a table, each teacher may have a tokenizer of its own.
"""

import collections.abc
import dataclasses
import functools
import io
import itertools
import logging
import os

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, files, trees
from lwt.layers import linear
from lwt.reparam import adapters
from lwt.runs import evaluation

LOG = logging.getLogger(__name__)
OUTPUTS = "teacher/outputs"
EVERY = 64  # batches of a teacher's answers, after which an unfinished table is saved


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A model that a student learns from, or the mean of several; it is not trained.

    Attributes:
        leaves: flat dict of frozen leaves of the step: the weights ``teacher/I/...`` of model I; or `OUTPUTS`
            `[n ...]`, one for every training record.
    """

    models: tuple[nn.Module, ...]
    leaves: dict
    fingerprint: str

    def apply(self, frozen) -> collections.abc.Callable:
        """A model's `apply` with weights from the step's `frozen` leaves; or a look-up by ``example`` `[b]`."""
        if OUTPUTS in frozen:
            return lambda batch, **_: frozen[OUTPUTS][batch["example"]]
        applies = [
            functools.partial(model.apply, {"params": trees.unflatten(trees.subtree(frozen, f"teacher/{i}"))})
            for i, model in enumerate(self.models)
        ]
        if len(applies) == 1:
            return applies[0]
        return lambda *args, **options: sum(apply(*args, **options) for apply in applies) / len(applies)


def make(teachers, data, *, workdir, mesh, cache, layers=False):
    """The `Teacher` of a run on `data`.

    Args:
        teachers: `experiment.Experiment`s.
        data: the student's data.
        workdir: the student's; it keeps the tables of outputs.
        cache: whether to compute the outputs once, if the data can number their training records.
        layers: whether layers are compared, which a table cannot hold.

    Raises:
        lwt.errors.ConfigError: see `_check`.
    """
    once = cache and not layers and hasattr(data, "training_set")
    _check(teachers, data, once=once, layers=layers)
    weights = [linear.merge(teacher.weights) for teacher in teachers]
    fingerprints = [adapters.fingerprint(w) for w in weights]
    if once:
        tables = [
            _outputs(teacher, data, weights=w, fingerprint=fingerprint, workdir=workdir, mesh=mesh)
            for teacher, w, fingerprint in zip(teachers, weights, fingerprints, strict=True)
        ]
        leaves = {OUTPUTS: jnp.asarray(np.mean(tables, axis=0))}
    else:
        leaves = {f"teacher/{i}/{name}": leaf for i, w in enumerate(weights) for name, leaf in w.items()}
    joint = fingerprints[0] if len(fingerprints) == 1 else files.sha256(" ".join(fingerprints).encode())
    return Teacher(tuple(teacher.model for teacher in teachers), leaves, joint)


def _check(teachers, data, *, once, layers):
    """Refuses teachers of other classes or (without a table) another tokenizer, and several where one must teach."""
    if len(teachers) > 1 and (layers or not hasattr(data, "labels")):
        raise errors.ConfigError(
            f"task.teacher names {len(teachers)} runs; several can teach only where a record has one output, a class "
            "or a number, and no layers are compared (task.hidden, task.attention)"
        )
    classes = tuple(data.labels.names) if hasattr(data, "labels") else ()
    for teacher in teachers:
        if bool(teacher.tokenizer) != bool(data.tokenizer):
            what = "texts" if teacher.tokenizer else "images"
            raise errors.ConfigError(f"task.teacher={teacher.workdir} reads {what}, which the run's data are not")
        student_print, teacher_print = (x.tokenizer.fingerprint if x.tokenizer else "" for x in (data, teacher))
        if student_print != teacher_print and not once:
            raise errors.ConfigError(
                f"task.teacher={teacher.workdir} has another tokenizer (fingerprint {teacher_print:.12}) than this run "
                f"({student_print:.12}); start a new run with data.tokenizer.path={teacher.tokenizer.path}, "
                "or, for labelled texts, set task.cache=True, with which each may have its own"
            )
        if classes != tuple(teacher.labels):
            raise errors.ConfigError(
                f"task.teacher={teacher.workdir} has the classes {', '.join(teacher.labels) or '(none)'}, the run's "
                f"data have {', '.join(classes) or '(none)'}; they should be the same"
            )


def _outputs(teacher, data, *, weights, fingerprint, workdir, mesh):
    """The teacher's output for every training record, `[n ...]` float32.

    The table is read from the workdir if it is there. An unfinished one is saved after every `EVERY` batches.
    """
    records = data.training_set(teacher.data)
    count = len(records.examples)
    identity = f"{fingerprint} {records.examples.fingerprint} {count}"
    path = os.path.join(workdir, f"teacher_{files.sha256(identity.encode())[:16]}.npy")
    outputs = kept(path, count)
    if outputs is not None:
        return outputs
    unfinished = f"{path}.part"
    done, outputs = _begun(unfinished)
    after = f", from batch {done + 1} on" if done else ""
    LOG.info("computing the outputs of the teacher %s for %d training records%s", teacher.workdir, count, after)
    evaluator = evaluation.Evaluator(teacher.task, teacher.model, mesh)
    batches = teacher.data.batches(records, share=evaluation.share_of_process())
    batches = itertools.islice(batches, done, None)
    while group := list(itertools.islice(batches, EVERY)):
        outputs = evaluator.predictions(weights, group, count=count, found=outputs)
        done += len(group)
        if jax.process_index() == 0:
            with files.replacing(unfinished, checked=True) as temporary, open(temporary, "wb") as file:
                np.savez(file, batches=done, outputs=outputs)
        LOG.info("the teacher has answered %d batches", done)
    if jax.process_index() == 0:
        keep(path, outputs)
        files.remove(unfinished)
    return outputs


def _begun(path):
    """Reads an unfinished table; returns the number of batches in it and the table, or 0 and None without one."""
    try:
        with np.load(io.BytesIO(files.read(path))) as arrays:
            return int(arrays["batches"]), arrays["outputs"]
    except FileNotFoundError:
        return 0, None
    except errors.DamageError as error:
        LOG.warning("%s; computing the outputs of the teacher again", error)
        return 0, None


def keep(path, outputs):
    """Writes a table of outputs."""
    with files.replacing(path, checked=True) as temporary, open(temporary, "wb") as file:
        np.save(file, outputs)


def kept(path, count):
    """The table of `count` outputs at `path`; None if it is missing or damaged."""
    try:
        files.verify(path)
        outputs = np.load(path)
        if len(outputs) != count:
            raise ValueError(f"it has {len(outputs)} rows instead of {count}")
        return outputs
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, TypeError) as error:
        LOG.warning("%s is damaged (%s); computing the outputs of the teacher again", path, error)
        return None
