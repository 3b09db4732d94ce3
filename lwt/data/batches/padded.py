"""Evaluation batches: one record to a row, padded to one of a few lengths."""

import numpy as np

from lwt.data.batches import sharding


class PaddedBatches:
    """Batches that hold every record once, with ``example`` [rows] int32: the record's index, or -1 in a filler row.

    Records are sorted by length, the longest first, so a batch that does not fit the memory fails at once. Filler rows,
    all 0, fill up the last batch. Every pass gives the same batches.

    Args:
        examples: an `examples.Examples`.
        rows: rows of the global batch.
        lengths: ascending; a row is padded to the smallest that holds it, and a row longer than the last is cut.
        share: the `sharding.Share` of this process.
    """

    def __init__(self, examples, *, rows, lengths, seed=0, share=sharding.WHOLE):
        self._part = share.rows(rows)
        self._examples, self._rows, self._seed = examples, rows, seed
        self._drawn = examples.draw(np.arange(len(examples)), np.random.default_rng([sharding.DRAW, seed, 0]))
        lengths, needed = np.asarray(lengths), self._drawn["length"]
        order = np.argsort(-needed, kind="stable")
        bucket = np.searchsorted(lengths[:-1], needed[order[::rows]])
        self._groups = [order[start : start + rows] for start in range(0, len(order), rows)]
        self._lengths = lengths[bucket].tolist()

    def __len__(self):
        return len(self._groups)

    def __iter__(self):
        part = self._part
        for number, (records, length) in enumerate(zip(self._groups, self._lengths, strict=True)):
            records = records[part.start : part.stop]
            uniform = sharding.uniform_of([sharding.BATCH, self._seed, number], self._rows, part=part[: len(records)])
            batch = self._examples.batch(sharding.take(self._drawn, records), length, uniform)
            filler = len(part) - len(records)
            batch = {name: np.concatenate([a, np.zeros((filler, *a.shape[1:]), a.dtype)]) for name, a in batch.items()}
            numbers = np.full(len(part), -1, np.int32)
            numbers[: len(records)] = records
            yield batch | {"example": numbers}
