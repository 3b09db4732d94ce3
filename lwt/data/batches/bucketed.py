"""Rows of a text encoder, and batches of rows of similar length.

A row is ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``; its segments are 1 up to the first [SEP], 2 behind it, and 0 in
the padding. A batch has as many rows as every other and one of a few lengths (`lengths`), so that little of it is
padding and each shape is compiled once.

`Bucketed` (training) and `Padded` (evaluation) take any `examples` with

    len(examples), examples.fingerprint
    examples.draw(records, rng) -> drawn: {name: array [n, ...]}, among them ``length`` [n], the tokens of each row
    examples.batch(drawn, length, uniform) -> {name: array [n, ...]}; uniform(k) gives [n k] numbers of [0, 1)

`draw` is given records as they come up in the order of an epoch, and decides what chance has to decide ahead of the
length (which second text); `batch` makes the arrays, and decides the rest (which tokens are masked).
"""

import numpy as np

from lwt import errors
from lwt.data import sources, tokenizer
from lwt.data.batches import packed

WINDOW = 64  # batches whose records are sorted by length
LEAST = 16  # tokens of the shortest rows
ORDER, DRAW, BATCH = 1, 2, 3  # what a random generator is for; the first number of its seed


def lengths(max_length):
    """The lengths that rows are padded to: 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, ... up to `max_length`.

    Two to an octave, from 128 on four: no row is padded by more than half of what it holds, a long one by a quarter.

    Raises:
        lwt.errors.ConfigError: a row could not hold two texts.
    """
    if max_length < 8:
        raise errors.ConfigError(f"data.row_length={max_length} should be at least 8: three special tokens, two texts")
    found = []
    for power in (LEAST << i for i in range(max_length.bit_length())):
        found += range(power, 2 * power, power // (2 if power < 128 else 4))
    return (*(length for length in found if length < max_length), max_length)


def truncate(first, second, limit):
    """Lengths [n] of two texts -> those that fit into `limit` tokens together: the longer one loses its surplus first.

    The same as taking tokens one by one from whichever is longer (from the second if they are equally long).
    """
    half = np.maximum(limit - second, -(-limit // 2))
    kept = np.where(first + second > limit, np.minimum(first, half), first)
    return kept, np.minimum(second, limit - kept)


def assemble(sides, length):
    """``(ids, segments)``, each [n length] int32, with the special tokens.

    Args:
        sides: one or two of ``(values, start, size)``: text i of that side is ``values[start[i]:start[i] + size[i]]``.
        length: of the rows; all must fit.
    """
    count = len(sides[0][1])
    ids, segments = np.zeros((count, length), np.int32), np.zeros((count, length), np.int32)
    row, column = np.arange(count), np.arange(length)
    ids[:, 0] = tokenizer.CLS
    at = np.ones(count, np.int64)  # where the next text begins
    for number, (values, start, size) in enumerate(sides, start=1):
        begin = 0 if number == 1 else at[:, None]
        segments[(column >= begin) & (column <= (at + size)[:, None])] = number
        within = np.arange(size.sum()) - np.repeat(size.cumsum() - size, size)
        ids[np.repeat(row, size), np.repeat(at, size) + within] = values[np.repeat(start, size) + within]
        ids[row, at + size] = tokenizer.SEP
        at = at + size + 1
    return ids, segments


class Bucketed:
    """Endless training batches of `rows` rows; the same for the same seed, whoever asks.

    Record after record in the order of an epoch, a permutation drawn from (seed, epoch), and epoch after epoch, make
    one stream. Of every window of it, `window` batches wide (an epoch at most), the records are sorted by length, cut
    into batches and the batches shuffled. No record is lost or doubled, and every batch is full: one may hold the end
    of an epoch and the start of the next.

    Args:
        examples: see above.
        rows: of the global batch.
        lengths: ascending; the last is that of the longest row.
        seed: of the order and of all else that is drawn.
        process, processes: this process makes its contiguous share of the rows of every batch.

    Raises:
        lwt.errors.DataError: there are no examples.
        lwt.errors.ConfigError: `rows` does not divide among the processes.
    """

    def __init__(self, examples, *, rows, lengths, seed=0, process=0, processes=1, window=WINDOW):
        self._mine = packed.share(rows, process, processes)
        self._examples, self._rows, self._seed = examples, rows, seed
        self._lengths = np.asarray(lengths)
        self._count = len(examples)
        if not self._count:
            raise errors.DataError("there are no examples to train on")
        self._batches = max(1, min(window, self._count // rows))  # of a window
        self._stream = sources.digest("rows 1", examples.fingerprint, self._count, rows, lengths, seed, window)[:12]
        self._orders = {}
        self.restore({"batch": 0, "stream": self._stream})

    def __iter__(self):
        return self

    def __next__(self):
        window, within = divmod(self._batch, self._batches)
        if self._window is None or self._window[0] != window:
            self._window = window, *self._draw(window)
        _, drawn, order, length = self._window
        batch = self._make(_take(drawn, order[within][self._mine.start : self._mine.stop]), int(length[within]))
        self._batch += 1
        return batch

    @property
    def epoch(self):
        """Whole epochs behind the next batch."""
        return self._batch * self._rows // self._count

    def state(self):
        """Where the next batch starts, as a small dict for JSON."""
        return {"batch": self._batch, "stream": self._stream}

    def restore(self, state):
        """Goes to a `state()`: the batches that follow are those that followed then.

        Raises:
            lwt.errors.DataError: it is the state of another stream (other data, seed, rows or lengths).
        """
        if state.get("stream") != self._stream:
            raise errors.DataError(
                f"the data position {state} was saved with other data, another seed, or other rows or row_length"
            )
        self._batch, self._window = int(state["batch"]), None

    def measure(self, windows=32):
        """From the first epoch, its first `windows` windows at most.

        Returns:
            ``batches`` of an epoch; ``positions`` of a global batch, and ``tokens`` that are no padding among them, on
            average; ``real_share``, their quotient; ``lengths``: {length: share of the batches}.
        """
        batches = self._count / self._rows
        tokens, found = 0, []
        for window in range(min(windows, max(1, round(batches / self._batches)))):
            drawn, _, length = self._draw(window)
            tokens += int(drawn["length"].sum())
            found.extend(length.tolist())
        positions, tokens = self._rows * sum(found) / len(found), tokens / len(found)
        shares = {length: found.count(length) / len(found) for length in sorted(set(found))}
        return {
            "batches": batches,
            "positions": positions,
            "tokens": tokens,
            "real_share": tokens / positions,
            "lengths": shares,
        }

    def _make(self, drawn, length):
        uniform = _uniform([BATCH, self._seed, self._batch], self._rows, self._mine)
        return self._examples.batch(drawn, length, uniform)

    def _draw(self, window):
        """(drawn, [batches rows] of its indices, the length of each batch) of a window."""
        place = np.arange(self._batches * self._rows) + window * self._batches * self._rows
        epoch, index = np.divmod(place, self._count)
        epochs = range(int(epoch[0]), int(epoch[-1]) + 1)
        self._orders = {e: self._orders[e] if e in self._orders else self._permutation(e) for e in epochs}
        records = np.concatenate([self._orders[e][index[epoch == e]] for e in epochs])
        random = np.random.default_rng([DRAW, self._seed, window])
        drawn = self._examples.draw(records, random)
        bucket = np.searchsorted(self._lengths, drawn["length"])
        order = np.argsort(bucket, kind="stable").reshape(self._batches, self._rows)
        order = order[random.permutation(self._batches)]
        return drawn, order, self._lengths[bucket[order].max(axis=1)]

    def _permutation(self, epoch):
        return np.random.default_rng([ORDER, self._seed, epoch]).permutation(self._count)


class Padded:
    """Evaluation batches: each record once, with ``example`` [rows] int32, its index, or -1 in a filler row (all 0).

    Records are sorted by length. What chance decides is drawn from the seed alone: every pass has the same batches.

    Args: see `Bucketed`.

    Attributes:
        cut: records that were longer than a row and lost something.
    """

    def __init__(self, examples, *, rows, lengths, seed=0, process=0, processes=1):
        self._mine = packed.share(rows, process, processes)
        self._examples, self._rows, self._seed = examples, rows, seed
        self._drawn = examples.draw(np.arange(len(examples)), np.random.default_rng([DRAW, seed, 0]))
        order = np.argsort(-self._drawn["length"], kind="stable")  # what runs out of memory does so at once
        lengths, longest = np.asarray(lengths), self._drawn["length"][order[::rows]]
        self._plan = [
            (order[start : start + rows], int(length))
            for start, length in zip(
                range(0, len(order), rows), lengths[np.searchsorted(lengths, longest)], strict=True
            )
        ]
        self.cut = int(self._drawn["cut"].sum())

    def __len__(self):
        return len(self._plan)

    def __iter__(self):
        for number, (records, length) in enumerate(self._plan):
            records = records[self._mine.start : self._mine.stop]
            uniform = _uniform([BATCH, self._seed, number], self._rows, self._mine[: len(records)])
            batch = self._examples.batch(_take(self._drawn, records), length, uniform)
            filler = len(self._mine) - len(records)
            batch = {name: np.concatenate([a, np.zeros((filler, *a.shape[1:]), a.dtype)]) for name, a in batch.items()}
            example = np.full(len(self._mine), -1, np.int32)
            example[: len(records)] = records
            yield batch | {"example": example}


def _uniform(seed, rows, mine):
    """``uniform(width)``, drawn for all rows, so that it does not matter how many processes share them."""
    random = np.random.default_rng(seed)
    return lambda width: random.random((rows, width), np.float32)[mine.start : mine.stop]


def _take(drawn, indices):
    return {name: array[indices] for name, array in drawn.items()}
