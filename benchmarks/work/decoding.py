"""The work of decoding: 256 sentences in batches, the longest first, and how a worker runs and counts them."""

import dataclasses
import os

import numpy as np

from benchmarks import parsing
from benchmarks.work import samples

SENTENCES = 256


@dataclasses.dataclass(frozen=True)
class Sources:
    """Sentences of similar length.

    Attributes:
        ids: int32 ``[b s]``, filled with PAD; every row ends with END.
        lengths: of each row.
        limit: largest number of tokens of an answer; with random weights, which never end it, the longest reference's.
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
    """The `Sources` of some pairs."""
    sources = [source for source, _ in pairs]
    longest = max(len(target) for _, target in pairs)
    return Sources(samples.pad(sources), np.array([len(source) for source in sources]), limit or longest)


def add_flags(parser):
    """Adds the flags of decoding."""
    parser.add_argument("--size", type=parsing.whole(1), default=64, help="number of sentences in a batch")
    parser.add_argument("--weights", default="", help="flat .npz of a trained model, whose answers end by themselves")
    parser.add_argument("--answers", default="", help="write the token ids of the answers to this .npy")


def runner(decode, batches, flags):
    """``run(k)`` for `common.serve`: decodes all k times; ``decode(batch) -> ids [b limit]``, cut after END."""

    def run(times):
        for _ in range(times):
            answers = [cut(row) for batch in batches for row in decode(batch)]
        if flags.answers and not os.path.exists(flags.answers):
            with open(flags.answers, "wb") as file:
                np.save(file, samples.pad(answers))
        return {"examples": times * len(answers), "tokens": times * sum(map(len, answers))}

    return run


def cut(row):
    """A row of ids up to and including its first END."""
    row = np.asarray(row, np.int32)
    ends = np.flatnonzero(row == samples.END)
    return row[: ends[0] + 1] if len(ends) else row
