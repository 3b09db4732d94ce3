"""Training batches of rows of similar length: each batch is padded to one of a few lengths.

All batches have the same number of rows, so each length is one shape to compile, and little of a batch is padding.
"""

import numpy as np

from lwt import errors
from lwt.data import sources
from lwt.data.batches import sharding

WINDOW = 64  # batches whose records are sorted by length
SHORTEST = 16  # tokens of the shortest rows


def bucket_lengths(max_length):
    """The lengths that rows are padded to: 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, ... up to `max_length`.

    There are two lengths per octave, and four from 128 on: padding adds at most half of what a row holds, and a quarter
    to a long row.

    Raises:
        lwt.errors.ConfigError: a row could not hold two texts.
    """
    if max_length < 8:
        raise errors.ConfigError(f"data.row_length={max_length} must be at least 8: three special tokens, two texts")
    lengths = []
    for power in (SHORTEST << i for i in range(max_length.bit_length())):
        lengths += range(power, 2 * power, power // (2 if power < 128 else 4))
    return (*(length for length in lengths if length < max_length), max_length)


class BucketedBatches:
    """Endless training batches of `rows` rows, the same for the same seed.

    Each epoch is a permutation drawn from (seed, epoch), and the epochs form one stream. The records of every window of
    `window` batches (an epoch at most) are sorted by length and cut into batches, and the batches are shuffled. No
    record is lost or doubled, and a batch may hold the end of one epoch and the start of the next.

    Args:
        examples: an `examples.Examples`.
        rows: rows of the global batch.
        lengths: ascending; the last must hold the longest row.
        seed: the seed of all random choices.
        share: the `sharding.Share` of this process.

    Raises:
        lwt.errors.DataError: there are no examples.
    """

    def __init__(self, examples, *, rows, lengths, seed=0, share=sharding.WHOLE, window=WINDOW):
        self._part = share.rows(rows)
        self._examples, self._rows, self._seed = examples, rows, seed
        self._lengths = np.asarray(lengths)
        self._count = len(examples)
        if not self._count:
            raise errors.DataError("there are no examples to train on")
        self._window_batches = max(1, min(window, self._count // rows))
        self._stream = sources.digest("rows 1", examples.fingerprint, self._count, rows, lengths, seed, window)[:12]
        self._orders = {}
        self.restore({"batch": 0, "stream": self._stream})

    def __iter__(self):
        return self

    def __next__(self):
        window, within = divmod(self._batch, self._window_batches)
        if self._window is None or self._window[0] != window:
            self._window = window, *self._draw(window)
        _, drawn, order, length = self._window
        rows = sharding.take(drawn, order[within][self._part.start : self._part.stop])
        uniform = sharding.uniform_of([sharding.BATCH, self._seed, self._batch], self._rows, part=self._part)
        batch = self._examples.batch(rows, int(length[within]), uniform)
        self._batch += 1
        return batch

    @property
    def epoch(self):
        """Whole epochs before the next batch."""
        return self._batch * self._rows // self._count

    def state(self):
        """The position of the next batch, as a small dict for JSON."""
        return {"batch": self._batch, "stream": self._stream}

    def restore(self, state):
        """Moves to the position of a `state()`.

        Raises:
            lwt.errors.DataError: the state belongs to another stream (other data, seed, rows or lengths).
        """
        if state.get("stream") != self._stream:
            raise errors.DataError(
                f"the data position {state} was saved with other data, another seed, or other rows or row_length"
            )
        self._batch, self._window = int(state["batch"]), None

    def measure(self, windows=32):
        """Measures the padding in the first `windows` windows of the first epoch.

        Returns:
            ``batches`` of an epoch; mean ``positions`` of a global batch, mean ``tokens`` among them that are not
            padding, and ``real_share``, their quotient; ``lengths``: {length: share of the batches}.
        """
        batches = self._count / self._rows
        tokens, lengths = 0, []
        for window in range(min(windows, max(1, round(batches / self._window_batches)))):
            drawn, _, length = self._draw(window)
            tokens += int(drawn["length"].sum())
            lengths.extend(length.tolist())
        positions, tokens = self._rows * sum(lengths) / len(lengths), tokens / len(lengths)
        shares = {length: lengths.count(length) / len(lengths) for length in sorted(set(lengths))}
        found = {"batches": batches, "positions": positions, "tokens": tokens}
        return found | {"real_share": tokens / positions, "lengths": shares}

    def _draw(self, window):
        """``(drawn, [batches rows] indices into it, the length of each batch)`` of a window."""
        place = np.arange(self._window_batches * self._rows) + window * self._window_batches * self._rows
        epoch, index = np.divmod(place, self._count)
        epochs = range(int(epoch[0]), int(epoch[-1]) + 1)
        self._orders = {e: self._orders[e] if e in self._orders else self._permutation(e) for e in epochs}
        records = np.concatenate([self._orders[e][index[epoch == e]] for e in epochs])
        rng = np.random.default_rng([sharding.DRAW, self._seed, window])
        drawn = self._examples.draw(records, rng)
        bucket = np.searchsorted(self._lengths, drawn["length"])
        order = np.argsort(bucket, kind="stable").reshape(self._window_batches, self._rows)
        order = order[rng.permutation(self._window_batches)]
        return drawn, order, self._lengths[bucket[order].max(axis=1)]

    def _permutation(self, epoch):
        return np.random.default_rng([sharding.ORDER, self._seed, epoch]).permutation(self._count)
