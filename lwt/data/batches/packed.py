"""From ids to batches.

Training: pairs are packed, several to a row, by `PackedPairs`, or lie one a row (`pair_rows.py`). Evaluation: one pair
a row, by `padded_batches`.
Every batch is a dict of int32 arrays [rows, length]: source, source_segments, source_positions and, with targets,
inputs, targets, target_segments, target_positions. Segments count 1, 2, ... in a row, 0 is padding; positions start at
0 in each segment. A source is ``[x..., end]``, inputs are ``[begin, y...]``, targets ``[y..., end]``.
"""

import dataclasses

import numpy as np

from lwt import errors
from lwt.data import sources, tokenizer
from lwt.data.batches import packing, prefetch, tokenized

# The whole way from a source to batches under one name.
Ragged = tokenized.Ragged
tokenize = tokenized.tokenize
Prefetch = prefetch.Prefetch
CHUNK = tokenized.CHUNK

WINDOW = 16384  # pairs packed at a time


class PackedPairs:
    """Endless training batches ``[rows, row_length]`` of packed pairs; the same for the same seed, whoever asks.

    An epoch is a permutation drawn from (seed, epoch), cut into windows; the pairs of a window are packed and its rows
    shuffled. The rows of all epochs form one stream of which every batch takes the next `rows`, so a batch may hold the
    end of one epoch and the start of the next; no pair is lost or doubled, and every batch is full.

    Args:
        source, target: `Ragged` of the same size.
        rows, row_length: the shape of the global batch.
        min_tokens, max_tokens: pairs with a side outside (end mark not counted) are left out, as are those with a side
            that does not fit a row: see `left_out`.
        seed: of the order.
        process, processes: this process makes its contiguous share of the rows of every batch.

    Attributes:
        pairs: pairs of an epoch.
        left_out: ``{"too short": n, "too long": n}``.

    Raises:
        lwt.errors.DataError: no pair is left.
        lwt.errors.ConfigError: `rows` does not divide among the processes.
    """

    def __init__(
        self,
        source,
        target,
        *,
        rows,
        row_length,
        min_tokens=1,
        max_tokens=64,
        seed=0,
        process=0,
        processes=1,
        window=WINDOW,
    ):
        self._mine = share(rows, process, processes)
        self.source, self.target, self.seed = source, target, seed
        self.rows, self.row_length = rows, row_length
        self._keep, self.left_out = fitting(source, target, min_tokens, min(max_tokens, row_length - 1))
        self.pairs = len(self._keep)
        self._windows = -(-self.pairs // window)
        tokens = [int(side.lengths[self._keep].sum()) for side in (source, target)]
        self._stream = sources.digest(seed, self.pairs, *tokens, row_length, window)[:12]
        self.restore({"epoch": 0, "window": 0, "row": 0, "stream": self._stream})

    def __iter__(self):
        return self

    def __next__(self):
        pieces, wanted = [], self.rows  # (pair, row of the batch, segment), a piece from each window touched
        while wanted:
            pairs, starts = self._packed()
            first, last = self._row, min(self._row + wanted, len(starts) - 1)
            part = slice(starts[first], starts[last])
            row = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
            pieces.append((pairs[part], row + self.rows - wanted))
            wanted -= last - first
            self._row = last
            if last == len(starts) - 1:
                self._advance()
        pairs, row = (np.concatenate(column) for column in zip(*pieces, strict=True))
        mine = (row >= self._mine.start) & (row < self._mine.stop)
        return make_batch(
            self.source, self.target, pairs[mine], row[mine] - self._mine.start, len(self._mine), self.row_length
        )

    def state(self):
        """Where the next batch starts, as a small dict for JSON."""
        return {"epoch": self.epoch, "window": self._window, "row": self._row, "stream": self._stream}

    def restore(self, state):
        """Goes to a `state()`: the batches that follow are those that followed then.

        Raises:
            lwt.errors.DataError: it is the state of another stream (other data, seed or row length).
        """
        if state.get("stream") != self._stream:
            raise errors.DataError(f"the data position {state} was saved with other data, another seed or row_length")
        self.epoch, self._window, self._row = (int(state[key]) for key in ("epoch", "window", "row"))
        self._order = self._current = None

    def measure(self, epoch=0):
        """Packs a whole epoch: its rows and batches, and the share of real tokens on each side."""
        order = self._permutation(epoch)
        rows = sum(len(self._pack(order, epoch, window)[1]) - 1 for window in range(self._windows))
        real = [int((side.lengths[self._keep] + 1).sum()) for side in (self.source, self.target)]
        places = rows * self.row_length
        shares = {"source_share": real[0] / places, "target_share": real[1] / places}
        return {"rows": rows, "batches": rows / self.rows} | shares

    def _advance(self):
        self._row, self._window, self._current = 0, self._window + 1, None
        if self._window == self._windows:
            self._window, self.epoch, self._order = 0, self.epoch + 1, None

    def _packed(self):
        if self._order is None:
            self._order = self._permutation(self.epoch)
        if self._current is None:
            self._current = self._pack(self._order, self.epoch, self._window)
        return self._current

    def _permutation(self, epoch):
        return self._keep[np.random.default_rng([self.seed, epoch]).permutation(self.pairs)]

    def _pack(self, order, epoch, window):
        """(pairs of the window, row by row; where each row starts among them)."""
        bounds = np.linspace(0, self.pairs, self._windows + 1).astype(np.int64)
        pairs = order[bounds[window] : bounds[window + 1]]
        lengths = [(side.offsets[pairs + 1] - side.offsets[pairs] + 1) for side in (self.source, self.target)]
        row = packing.pack(*lengths, self.row_length)
        # The packing orders by length; a batch should not.
        row = np.random.default_rng([self.seed, epoch, window]).permutation(row.max() + 1)[row]
        order = np.argsort(row, kind="stable")
        return pairs[order], np.concatenate([[0], np.bincount(row).cumsum()])


def fitting(source, target, min_tokens, max_tokens):
    """The pairs whose sides both have `min_tokens` to `max_tokens` tokens, end marks not counted.

    Returns:
        (their indices, ascending; how many others there are: ``{"too short": n, "too long": n}``).

    Raises:
        lwt.errors.DataError: there are none.
    """
    min_tokens = max(1, min_tokens)
    longest, shortest = np.maximum(source.lengths, target.lengths), np.minimum(source.lengths, target.lengths)
    short, long = shortest < min_tokens, longest > max_tokens
    kept = np.flatnonzero(~short & ~long)
    left_out = {"too short": int(short.sum()), "too long": int((long & ~short).sum())}
    if not len(kept):
        raise errors.DataError(
            f"none of the {len(source)} pairs has {min_tokens} to {max_tokens} tokens on both sides ({left_out}): see "
            "data.min_tokens, data.max_tokens and data.row_length"
        )
    return kept, left_out


@dataclasses.dataclass(frozen=True)
class PaddedBatches:
    """Batches of one record a row, with ``example`` [rows]: the record's index, or -1 in a filler row (all segments 0).

    Attributes:
        cut: sides that were longer than a row and lost their end.
    """

    source: Ragged
    target: Ragged | None
    batch: int
    plan: tuple  # (records, row length) of each batch
    cut: int
    mine: range

    def __len__(self):
        return len(self.plan)

    def __iter__(self):
        for records, length in self.plan:
            records = records[self.mine.start : self.mine.stop]
            batch = make_batch(self.source, self.target, records, np.arange(len(records)), len(self.mine), length)
            example = np.full(len(self.mine), -1, np.int32)
            example[: len(records)] = records
            yield batch | {"example": example}


def padded_batches(source, target, *, batch, multiple=16, max_length=256, process=0, processes=1):
    """Evaluation batches of ``[batch, length]``, each record once: `PaddedBatches`, with a length and a `cut`.

    Records are sorted by length, so that little is padding; lengths are multiples of `multiple`, so that few shapes are
    compiled; the last batch is filled with filler rows.

    Args:
        source, target: `Ragged`; `target` may be None (to predict).
        batch: rows of the global batch.
        max_length: longest row, end mark included; a longer side is cut, and counted.
        process, processes: this process makes its contiguous share of the rows of every batch.
    """
    mine = share(batch, process, processes)
    longest = source.lengths + 1
    cut = int((longest > max_length).sum())
    if target is not None:
        cut += int((target.lengths + 1 > max_length).sum())
        longest = np.maximum(longest, target.lengths + 1)
    order = np.argsort(-longest, kind="stable")  # the longest first: what runs out of memory does so at once
    plan = []
    for start in range(0, len(order), batch):
        length = min(int(longest[order[start]]), max_length)
        plan.append((order[start : start + batch], -(-length // multiple) * multiple))
    return PaddedBatches(source, target, batch, tuple(plan), cut, mine)


def share(rows, process, processes):
    """The rows of a batch that a process makes, a range.

    Raises:
        lwt.errors.ConfigError: they cannot be shared evenly.
    """
    if rows % processes:
        raise errors.ConfigError(f"a batch of {rows} rows cannot be shared evenly among {processes} processes")
    return range(rows // processes * process, rows // processes * (process + 1))


def make_batch(source, target, pairs, row, rows, length):
    """The arrays of a batch: `pairs`, which lie one behind the other in rows `row` (ascending)."""
    first = np.searchsorted(row, row)  # the first pair of the same row
    segment = np.arange(len(row)) - first + 1
    ids, segments, positions = _side(source, pairs, row, first, segment, rows, length)
    batch = {"source": ids, "source_segments": segments, "source_positions": positions}
    if target is not None:
        ids, segments, positions = _side(target, pairs, row, first, segment, rows, length)
        inputs = np.zeros_like(ids)
        inputs[:, 1:] = ids[:, :-1]
        inputs = np.where(positions == 0, tokenizer.BOS, inputs) * (segments > 0)
        batch |= {"inputs": inputs, "targets": ids, "target_segments": segments, "target_positions": positions}
    return {name: array.astype(np.int32, copy=False) for name, array in batch.items()}


def _side(ragged, pairs, row, first, segment, rows, length):
    """(ids with end marks, segments, positions), each [rows, length] int32, of one side."""
    start = ragged.offsets[pairs]
    size = np.minimum(ragged.offsets[pairs + 1] - start + 1, length)  # with the end mark; a longer one is cut
    behind = np.concatenate([[0], size.cumsum()])  # tokens of all pairs before
    place = row * length + behind[:-1] - behind[first]
    within = np.arange(behind[-1]) - np.repeat(behind[:-1], size)
    at = np.repeat(place, size) + within
    ids, segments, positions = (np.zeros(rows * length, np.int32) for _ in range(3))
    # The last place of a pair is its end mark; what is read there (the next row's first id) is overwritten.
    ids[at] = np.take(ragged.values, np.repeat(start, size) + within, mode="clip") if len(ragged.values) else 0
    ids[place + size - 1] = tokenizer.EOS
    segments[at] = np.repeat(segment, size)
    positions[at] = within
    return tuple(array.reshape(rows, length) for array in (ids, segments, positions))
