"""Evaluation: the same function during training and in eval.py."""

import functools

import jax
import numpy as np

from lwt import trees
from lwt.training import devices


class Evaluator:
    """Figures and decoded text of a model on a set of pairs.

    Args:
        task: makes losses and text from batches; see `lwt/tasks/`.
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

    def figures(self, weights, data, evaluation, *, generate=True):
        """``(figures, decoded texts or None)`` of an evaluation set (`lwt.data.pairs.Evaluation`)."""
        batches = list(data.batches(evaluation, process=jax.process_index(), processes=jax.process_count()))
        figures, texts = self.losses(weights, batches), None
        if generate:
            texts = self.texts(weights, batches, data.tokenizer, len(evaluation.sources), max_length=data.max_length)
            figures |= self._task.score(texts, evaluation.references, evaluation.groups)
        return figures, texts
