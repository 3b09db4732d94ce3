"""What is decoded: 256 sentences, the longest first, in batches; and how a worker runs and counts it."""

import dataclasses
import os

import numpy as np

from benchmarks.work import samples

SENTENCES = 256


@dataclasses.dataclass(frozen=True)
class Sources:
    """Sentences of like length.

    Attributes:
        ids: int32 ``[b s]``, filled with PAD; every row ends with END.
        lengths: of each row.
        limit: most tokens of an answer. With the random weights, which never end by themselves, the longest reference.
    """

    ids: np.ndarray
    lengths: np.ndarray
    limit: int


def load(flags):
    """The batches of ``--data``, of ``--size`` sentences (the last may be smaller), and the flat weights."""
    pairs = samples.translation(flags.data, flags.cache, count=flags.batches * samples.BATCH)[:SENTENCES]
    pairs.sort(key=lambda pair: -len(pair[0]))
    groups = [pairs[start : start + flags.size] for start in range(0, len(pairs), flags.size)]
    return [
        batch(group, limit=samples.MAX_LENGTH if flags.weights else None) for group in groups
    ], samples.load_weights(flags.weights)


def batch(pairs, *, limit=None):
    """`Sources` of some pairs."""
    sources = [source for source, _ in pairs]
    longest = max(len(target) for _, target in pairs)
    return Sources(samples.pad(sources), np.array([len(source) for source in sources]), limit or longest)


def add_flags(parser):
    """The flags that only decoding has."""
    parser.add_argument("--size", type=int, default=64, help="sentences of a batch")
    parser.add_argument("--weights", default="", help="flat .npz of a trained model; then answers end by themselves")
    parser.add_argument("--answers", default="", help="write the token ids of the answers to this .npy")


def runner(decode, batches, flags):
    """``run(k)`` for `common.serve`: k times all sentences; ``decode(batch) -> ids [b limit]``, cut after END."""

    def run(times):
        for _ in range(times):
            answers = [cut(row) for batch in batches for row in decode(batch)]
        if flags.answers and not os.path.exists(flags.answers):
            with open(flags.answers, "wb") as file:
                np.save(file, samples.pad(answers))
        return {"examples": times * len(answers), "tokens": times * sum(map(len, answers))}

    return run


def cut(row):
    """A row of ids up to its first END, that included."""
    row = np.asarray(row, np.int32)
    ends = np.flatnonzero(row == samples.END)
    return row[: ends[0] + 1] if len(ends) else row
