"""Training batches of packed pairs: several sentence pairs to a row, so that little of a batch is padding."""

import numpy as np

from lwt import errors
from lwt.data import sources
from lwt.data.batches import sharding

WINDOW = 16384  # pairs packed at a time
MEASURED = 64  # windows that are packed to measure an epoch: a million pairs


class PackedBatches:
    """Endless training batches of packed pairs, the same for the same seed.

    An epoch is a permutation drawn from (seed, epoch), cut into windows; the pairs of a window are packed and the rows
    shuffled. The rows of all epochs form one stream: no pair is lost or doubled, and a batch may hold the end of one
    epoch and the start of the next.

    Args:
        examples: a `pair_examples.PairExamples`; every side must fit a row with its end mark.
        rows: of the global batch.
        row_length: tokens of a row.
        target_row_length: the same for the target side; 0: `row_length`.
        share: the `sharding.Share` of this process.
    """

    def __init__(self, examples, *, rows, row_length, target_row_length=0, seed=0, share=sharding.WHOLE, window=WINDOW):
        self._part = share.rows(rows)
        self._examples, self._rows, self._seed = examples, rows, seed
        self._lengths = (row_length, target_row_length or row_length)
        self._windows = -(-len(examples) // window)
        lengths = list(dict.fromkeys(self._lengths))  # one for both sides is hashed once, as in older checkpoints
        self._stream = sources.digest(seed, len(examples), *examples.tokens, *lengths, window)[:12]
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
                self._row, self._window, self._current = 0, self._window + 1, None
                if self._window == self._windows:
                    self._window, self.epoch, self._order = 0, self.epoch + 1, None
        pairs, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
        own = (row >= self._part.start) & (row < self._part.stop)
        return self._examples.arrays(
            pairs[own], row[own] - self._part.start, rows=len(self._part), lengths=self._lengths
        )

    def state(self):
        """The position of the next batch, as a small dict for JSON."""
        return {"epoch": self.epoch, "window": self._window, "row": self._row, "stream": self._stream}

    def restore(self, state):
        """Moves to the position of a `state()`.

        Raises:
            lwt.errors.DataError: the state belongs to another stream (other data, seed or row length).
        """
        if state.get("stream") != self._stream:
            raise errors.DataError(f"the data position {state} was saved with other data, another seed or row_length")
        self.epoch, self._window, self._row = (int(state[key]) for key in ("epoch", "window", "row"))
        self._order = self._current = None

    def measure(self):
        """The ``rows`` and ``batches`` of the first epoch, and the share of real tokens on each side.

        It packs the epoch, or the first windows of a large one.
        """
        order, measured = self._permutation(0), min(self._windows, MEASURED)
        rows = sum(len(self._pack(order, 0, window)[1]) - 1 for window in range(measured))
        rows = round(rows * self._windows / measured)
        real = [tokens + len(self._examples) for tokens in self._examples.tokens]  # with end marks
        shares = [tokens / (rows * length) for tokens, length in zip(real, self._lengths, strict=True)]
        return {"rows": rows, "batches": rows / self._rows, "source_share": shares[0], "target_share": shares[1]}

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
        row = pack(*lengths, lengths=self._lengths)
        # The packing sorts by length; the batches must not be sorted.
        row = np.random.default_rng([self._seed, epoch, window]).permutation(row.max() + 1)[row]
        order = np.argsort(row, kind="stable")
        return pairs[order], np.concatenate([[0], np.bincount(row).cumsum()])


def pack(source, target, *, lengths):
    """Puts pairs into few rows: [pairs] the row of each, from 0.

    Best fit, the longest pairs first, for all pairs of the same two lengths at once: each goes into the open row
    with the least left over on both sides together. (On real pairs the side that fills up first is 97-99 % full.)

    Args:
        source, target: [pairs] int lengths, at least 1; none is longer than its side of a row.
        lengths: tokens of both sides of a row.
    """
    order = np.lexsort((source + target, np.maximum(source, target)))[::-1]
    source, target = source[order], target[order]
    new_kind = np.flatnonzero((np.diff(source) != 0) | (np.diff(target) != 0)) + 1
    bounds = [0, *new_kind.tolist(), len(order)]
    placed = np.empty(len(order), np.int64)  # the row of each pair, in sorted order
    (source_length, target_length), open_rows, rows = lengths, _OpenRows(*lengths), 0
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        if start == stop:
            continue
        s, t = int(source[start]), int(target[start])
        while start < stop and (left := open_rows.best(s, t)) is not None:
            taken = open_rows.take(left, stop - start)
            placed[start : start + len(taken)] = taken
            open_rows.add((left[0] - s, left[1] - t), taken)
            start += len(taken)
        if start < stop:  # no open row has room: new ones, each with as many of these as fit
            many = min(source_length // s, target_length // t)
            full, rest = divmod(stop - start, many)
            fresh = list(range(rows, rows + full + bool(rest)))
            placed[start:stop] = np.repeat(fresh, many)[: stop - start]
            open_rows.add((source_length - many * s, target_length - many * t), fresh[:full])
            open_rows.add((source_length - rest * s, target_length - rest * t), fresh[full:])
            rows += len(fresh)
    result = np.empty_like(placed)
    result[order] = placed
    return result


class _OpenRows:
    """Rows by what is left in them: ``(source, target) -> [row]``, and a table to find the best fit in."""

    def __init__(self, source_length, target_length):
        self.rows = {}
        self.closed = 2 * (source_length + target_length)
        self.cost = np.full((source_length + 1, target_length + 1), self.closed, np.int32)  # what is left, or `closed`

    def best(self, s, t):
        view = self.cost[s:, t:]
        at = divmod(int(view.argmin()), view.shape[1])
        return None if view[at] == self.closed else (at[0] + s, at[1] + t)

    def add(self, left, rows):
        if rows:
            self.rows.setdefault(left, []).extend(rows)
            self.cost[left] = left[0] + left[1]

    def take(self, left, count):
        rows = self.rows[left]
        taken = rows[-count:]
        del rows[-count:]
        if not rows:
            self.cost[left] = self.closed
        return taken
