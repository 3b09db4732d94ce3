"""Evaluation: the same code during training and in ``eval.py``."""

import collections
import functools

import jax
import numpy as np

from lwt import trees
from lwt.data.batches import sharding
from lwt.machine import devices
from lwt.runs import assembly

OFTEN = 128  # batches of one shape, after which a program that drops rows that have ended pays for its compilation


def share_of_process():
    """The `sharding.Share` of this process among those that JAX knows of."""
    return sharding.Share(jax.process_index(), jax.process_count())


def _apply(model, weights, batch):
    del batch
    return functools.partial(model.apply, {"params": trees.unflatten(weights)})


def _programs(task, apply, mesh):
    """The compiled functions of an `Evaluator`: sums, predictions, texts, and an array gathered from all devices."""

    def sums(weights, batch):
        return task.evaluate(apply(weights, batch), batch)

    def generate(weights, batch, **settings):
        return task.generate(apply(weights, batch), batch, **settings)

    def predict(weights, batch):
        return task.predict(apply(weights, batch), batch), batch["example"]

    compile_ = functools.partial(jax.jit, out_shardings=devices.replicated(mesh))
    decode = compile_(generate, static_argnames=("length", "vocabulary", "shrink"))
    return compile_(devices.over(mesh, sums)), compile_(predict), decode, compile_(lambda x: x)


@assembly.once
def _shared(task, model, mesh):
    """`_programs`, the same for all evaluators of equal tasks and models."""
    return _programs(task, functools.partial(_apply, model), mesh)


class Evaluator:
    """Figures of a model on a set of records, and its answer to each record.

    Args:
        task: computes losses from batches, and may answer with texts (`generate`) or numbers (`predict`).
        model: a linen module.
        mesh: the devices over which the rows of a batch are sharded.
    """

    alike = True  # whether all rows have the same weights, so that `apply` takes any number of them

    def __init__(self, task, model, mesh):
        self._task, self._model, self._mesh, self._given, self._spread = task, model, mesh, None, None
        self._decoded = collections.Counter()  # batches, by shape
        own = type(self).apply is not Evaluator.apply  # of a subclass
        programs = _programs(task, self.apply, mesh) if own else _shared(task, model, mesh)
        self._sums, self._predict, self._generate, self._gather = programs

    def apply(self, weights, batch):
        """The model with its weights, as a task calls it; here a flat dict of weights, for all rows of `batch`."""
        return _apply(self._model, weights, batch)

    def _on_devices(self, weights):
        """The weights on all devices of the mesh; those of a checkpoint come on one."""
        places = {leaf.sharding for leaf in jax.tree.leaves(weights) if isinstance(leaf, jax.Array)}
        if all(place.device_set == set(self._mesh.devices.flat) for place in places):
            return weights
        if self._given is not weights:
            self._given, self._spread = weights, devices.put(weights, devices.replicated(self._mesh))
        return self._spread

    def _placed(self, batch):
        """The rows of a batch on the devices, with filler rows up to a multiple of their number."""
        missing = -len(batch["example"]) % -(-self._mesh.shape["data"] // jax.process_count())
        if missing:
            batch = {name: np.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1)) for name, a in batch.items()}
            batch["example"][-missing:] = -1
        return devices.put_rows(batch, devices.by_rows(self._mesh))

    def losses(self, weights, batches):
        """The task's figures from sums over all batches: loss, perplexity, accuracy."""
        totals, weights = None, self._on_devices(weights)
        for batch in batches:
            sums = self._sums(weights, self._placed(batch))
            totals = sums if totals is None else jax.tree.map(lambda x, y: x + y, totals, sums)
        return self._task.finish({name: float(value) for name, value in jax.device_get(totals).items()})

    def texts(self, weights, batches, *, tokenizer, count, max_length):
        """The decoded texts of `count` records, in order: at most 1.5 times the length of the source plus 16 tokens."""
        ids, weights = [[] for _ in range(count)], self._on_devices(weights)
        for batch in batches:
            length = min(max_length, batch["source"].shape[1] * 3 // 2 + 16)
            self._decoded[batch["source"].shape] += 1
            often = self._decoded[batch["source"].shape] > OFTEN
            settings = dict(vocabulary=tokenizer.pieces, shrink=often and self.alike and self._mesh.size == 1)
            placed = self._placed(batch)
            examples = self._gather(placed["example"])
            rows = jax.device_get(self._generate(weights, placed, length=length, **settings))
            for example, row in zip(jax.device_get(examples).tolist(), np.asarray(rows).tolist(), strict=True):
                if example >= 0:
                    ids[example] = row
        return tokenizer.decode(ids)

    def predictions(self, weights, batches, *, count, found=None):
        """The predictions for `count` records, `[count]` or `[count outputs]`, in the records' order.

        Args:
            found: an array of predictions, in which those of the batches take their places; None for a new one, of
                zeros.
        """
        weights = self._on_devices(weights)
        for batch in batches:
            values, examples = jax.device_get(self._predict(weights, self._placed(batch)))
            if found is None:
                found = np.zeros((count, *values.shape[1:]), values.dtype)
            found[examples[examples >= 0]] = values[examples >= 0]
        return found

    def outputs(self, weights, data, *, evaluation, fields=None):
        """The decoded texts, or the predictions, for all records; None for a task that has neither.

        Args:
            fields: ``{name: array}`` with an entry for each record, which the batches get as well.
        """
        batches = data.batches(evaluation, share=share_of_process())
        if fields:
            batches = (
                batch | {name: x[np.maximum(batch["example"], 0)] for name, x in fields.items()} for batch in batches
            )
        if hasattr(self._task, "generate"):
            count = len(evaluation.sources)
            return self.texts(weights, batches, tokenizer=data.tokenizer, count=count, max_length=data.max_length)
        if hasattr(self._task, "predict"):
            return self.predictions(weights, batches, count=len(evaluation.sources))
        return None

    def figures(self, weights, data, *, evaluation, generate=True):
        """``(figures, outputs or None)`` on an evaluation set of the run's data.

        Predictions are scored all at once, for the loss too. Without `generate`, and for tasks that predict nothing,
        the figures come from sums over batches.
        """
        outputs = self.outputs(weights, data, evaluation=evaluation) if generate else None
        predicted = outputs is not None and hasattr(self._task, "predict")
        batches = data.batches(evaluation, share=share_of_process())
        figures = {} if predicted else self.losses(weights, batches)
        if outputs is not None:
            figures |= self._task.score(outputs, evaluation.references, groups=evaluation.groups)
        return figures, outputs
