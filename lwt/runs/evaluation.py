"""Evaluation: the same function during training and in eval.py."""

import functools

import jax
import numpy as np

from lwt import trees
from lwt.machine import devices


class Evaluator:
    """Figures of a model on a set of records, and what it says of each.

    Args:
        task: makes losses from batches, and texts (`generate`) or numbers (`predict`), or neither; see `lwt/tasks/`.
        model: a linen module.
        mesh: where batches are sharded by rows.
    """

    def __init__(self, task, model, mesh):
        self._task = task
        self._rows = devices.by_rows(mesh)
        apply_of = lambda weights: functools.partial(model.apply, {"params": trees.unflatten(weights)})  # noqa: E731
        everywhere = devices.replicated(mesh)
        self._sums = jax.jit(lambda weights, batch: task.evaluate(apply_of(weights), batch), out_shardings=everywhere)
        self._generate = jax.jit(
            lambda weights, batch, **static: task.generate(apply_of(weights), batch, **static),
            static_argnames=("length", "vocabulary"),
            out_shardings=everywhere,
        )
        self._predict = jax.jit(
            lambda weights, batch: (task.predict(apply_of(weights), batch), batch["example"]), out_shardings=everywhere
        )
        self._gather = jax.jit(lambda x: x, out_shardings=everywhere)

    def losses(self, weights, batches):
        """Loss, perplexity and token accuracy over all batches."""
        totals = None
        for batch in batches:
            sums = self._sums(weights, devices.put_rows(batch, self._rows))
            totals = sums if totals is None else jax.tree.map(lambda x, y: x + y, totals, sums)
        return self._task.finish({name: float(value) for name, value in jax.device_get(totals).items()})

    def texts(self, weights, batches, tokenizer, count, *, max_length):
        """Decoded texts of `count` records, in the records' order.

        A batch's decode length is bounded by half as much again as its source, plus 16 tokens, and by `max_length`.
        """
        ids = [[] for _ in range(count)]
        for batch in batches:
            length = min(max_length, batch["source"].shape[1] * 3 // 2 + 16)
            placed = devices.put_rows(batch, self._rows)
            examples = self._gather(placed["example"])
            rows = jax.device_get(self._generate(weights, placed, length=length, vocabulary=tokenizer.pieces))
            for example, row in zip(jax.device_get(examples).tolist(), np.asarray(rows).tolist(), strict=True):
                if example >= 0:
                    ids[example] = row
        return tokenizer.decode(ids)

    def predictions(self, weights, batches, count):
        """What `predict` gives for `count` records, `[count]` or `[count outputs]`, in the records' order."""
        found = None
        for batch in batches:
            values, examples = jax.device_get(self._predict(weights, devices.put_rows(batch, self._rows)))
            if found is None:
                found = np.zeros((count, *values.shape[1:]), values.dtype)
            found[examples[examples >= 0]] = values[examples >= 0]
        return found

    def outputs(self, weights, data, evaluation):
        """The texts that are decoded, or the predictions, for all records; None for a task that has neither."""
        batches = data.batches(evaluation, process=jax.process_index(), processes=jax.process_count())
        if hasattr(self._task, "generate"):
            count = len(evaluation.sources)
            return self.texts(weights, batches, data.tokenizer, count, max_length=data.max_length)
        return self.predictions(weights, batches, len(evaluation.sources)) if hasattr(self._task, "predict") else None

    def figures(self, weights, data, evaluation, *, generate=True):
        """``(figures, outputs or None)`` of an evaluation set of the run's data.

        Predictions are scored for all figures at once, the loss too; without `generate`, and for tasks that have none,
        figures are made from the sums over batches.
        """
        outputs = self.outputs(weights, data, evaluation) if generate else None
        predicted = outputs is not None and hasattr(self._task, "predict")
        batches = data.batches(evaluation, process=jax.process_index(), processes=jax.process_count())
        figures = {} if predicted else self.losses(weights, batches)
        if outputs is not None:
            figures |= self._task.score(outputs, evaluation.references, evaluation.groups)
        return figures, outputs
