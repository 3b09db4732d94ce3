"""Training batches of packed pairs: several sentence pairs to a row, so that little of a batch is padding."""

import numpy as np

from lwt import errors
from lwt.data import sources
from lwt.data.batches import packing, sharding

WINDOW = 16384  # pairs packed at a time


class PackedBatches:
    """Endless training batches ``[rows, row_length]`` of packed pairs, the same for the same seed.

    An epoch is a permutation drawn from (seed, epoch), cut into windows; the pairs of a window are packed and the rows
    shuffled. The rows of all epochs form one stream, and every batch takes the next `rows` of it. No pair is lost or
    doubled, and every batch is full: it may hold the end of one epoch and the start of the next.

    Args:
        examples: a `pair_examples.PairExamples`; every side must fit a row with its end mark.
        rows, row_length: the shape of the global batch.
        seed: the seed of the order.
        share: the `sharding.Share` of this process.
        window: pairs packed at a time.

    Raises:
        lwt.errors.ConfigError: the processes cannot share the rows evenly.
    """

    def __init__(self, examples, *, rows, row_length, seed=0, share=sharding.WHOLE, window=WINDOW):
        self._part = share.rows(rows)
        self._examples, self._rows, self._row_length, self._seed = examples, rows, row_length, seed
        self._windows = -(-len(examples) // window)
        self._stream = sources.digest(seed, len(examples), *examples.tokens, row_length, window)[:12]
        self.restore({"epoch": 0, "window": 0, "row": 0, "stream": self._stream})

    def __iter__(self):
        return self

    def __next__(self):
        pieces, wanted = [], self._rows  # (pair, row of the batch), a piece from each window in turn
        while wanted:
            pairs, starts = self._packed_window()
            first, last = self._row, min(self._row + wanted, len(starts) - 1)
            part = slice(starts[first], starts[last])
            row = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
            pieces.append((pairs[part], row + self._rows - wanted))
            wanted -= last - first
            self._row = last
            if last == len(starts) - 1:
                self._advance()
        pairs, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
        own = (row >= self._part.start) & (row < self._part.stop)
        return self._examples.arrays(
            pairs[own], row[own] - self._part.start, rows=len(self._part), length=self._row_length
        )

    def state(self):
        """The position of the next batch, as a small dict for JSON."""
        return {"epoch": self.epoch, "window": self._window, "row": self._row, "stream": self._stream}

    def restore(self, state):
        """Moves to the position of a `state()`: the batches that follow are those that followed there.

        Raises:
            lwt.errors.DataError: the state belongs to another stream (other data, seed or row length).
        """
        if state.get("stream") != self._stream:
            raise errors.DataError(f"the data position {state} was saved with other data, another seed or row_length")
        self.epoch, self._window, self._row = (int(state[key]) for key in ("epoch", "window", "row"))
        self._order = self._current = None

    def measure(self, epoch=0):
        """Packs a whole epoch: its ``rows`` and ``batches``, and the share of real tokens on each side."""
        order = self._permutation(epoch)
        rows = sum(len(self._pack(order, epoch, window)[1]) - 1 for window in range(self._windows))
        real = [tokens + len(self._examples) for tokens in self._examples.tokens]  # with end marks
        positions = rows * self._row_length
        shares = {"source_share": real[0] / positions, "target_share": real[1] / positions}
        return {"rows": rows, "batches": rows / self._rows} | shares

    def _advance(self):
        self._row, self._window, self._current = 0, self._window + 1, None
        if self._window == self._windows:
            self._window, self.epoch, self._order = 0, self.epoch + 1, None

    def _packed_window(self):
        if self._order is None:
            self._order = self._permutation(self.epoch)
        if self._current is None:
            self._current = self._pack(self._order, self.epoch, self._window)
        return self._current

    def _permutation(self, epoch):
        return self._examples.pairs[np.random.default_rng([self._seed, epoch]).permutation(len(self._examples))]

    def _pack(self, order, epoch, window):
        """``(the pairs of a window, row by row; where each row starts among them)``."""
        bounds = np.linspace(0, len(self._examples), self._windows + 1).astype(np.int64)
        pairs = order[bounds[window] : bounds[window + 1]]
        sides = (self._examples.source, self._examples.target)
        lengths = [side.offsets[pairs + 1] - side.offsets[pairs] + 1 for side in sides]
        row = packing.pack(*lengths, self._row_length)
        # The packing sorts by length; the batches must not be sorted.
        row = np.random.default_rng([self._seed, epoch, window]).permutation(row.max() + 1)[row]
        order = np.argsort(row, kind="stable")
        return pairs[order], np.concatenate([[0], np.bincount(row).cumsum()])
