"""Sentence pairs as rows: every batch is a dict of int32 arrays [rows, length of the side].

    source, source_segments, source_positions
    inputs, targets, target_segments, target_positions      where there are targets

Segments number the pairs of a row 1, 2, ...; 0 is padding. Positions start at 0 in each segment. A source is
``[x..., end]``, inputs are ``[begin, y...]``, targets ``[y..., end]``.
"""

import dataclasses

import numpy as np

from lwt import errors
from lwt.data import sources, tokenizer
from lwt.data.batches import examples, tokenized

KEYS = (
    *("source", "source_segments", "source_positions"),
    *("inputs", "targets", "target_segments", "target_positions"),
)


def shapes(rows, *, lengths):
    """``{key: (rows, length)}`` of a batch; `lengths` are those of both sides of a row."""
    return {key: (rows, lengths[not key.startswith("source")]) for key in KEYS}


@dataclasses.dataclass(frozen=True)
class PairExamples(examples.Examples):
    """Sentence pairs, or sources alone, one to a row."""

    source: tokenized.RaggedArray
    target: tokenized.RaggedArray | None  # None for sources to predict from
    pairs: np.ndarray  # [n] indices of the pairs in use
    left_out: dict  # the number of other pairs: ``{"too short": n, "too long": n}``

    @classmethod
    def of_all(cls, source, target=None):
        """All pairs, to evaluate on or to predict."""
        return cls(source, target, np.arange(len(source)), {})

    @classmethod
    def fitting(cls, source, target, *, min_tokens, max_tokens):
        """The pairs whose sides both have `min_tokens` (1 at least) to `max_tokens` tokens, without the end mark.

        Args:
            max_tokens: one number, or one for each side.

        Raises:
            lwt.errors.DataError: no pair is left.
        """
        min_tokens = max(1, min_tokens)
        lengths, longest = np.stack([source.lengths, target.lengths]), np.broadcast_to(max_tokens, 2)
        short, long = (lengths < min_tokens).any(0), (lengths > longest[:, None]).any(0)
        pairs = np.flatnonzero(~short & ~long)
        left_out = {"too short": int(short.sum()), "too long": int((long & ~short).sum())}
        if not len(pairs):
            raise errors.DataError(
                f"none of the {len(source)} pairs has {min_tokens} to {longest[0]} tokens in its source and "
                f"{min_tokens} to {longest[1]} in its target ({left_out}): "
                "see data.min_tokens, data.max_tokens, data.row_length and data.target_row_length"
            )
        return cls(source, target, pairs, left_out)

    def __len__(self):
        return len(self.pairs)

    @property
    def tokens(self):
        """The number of tokens of each side, without end marks."""
        return [int(side.lengths[self.pairs].sum()) for side in (self.source, self.target)]

    @property
    def fingerprint(self):
        """A hash of the number of pairs and of tokens."""
        return sources.digest("pairs", len(self.pairs), *self.tokens)

    def draw(self, records, rng):
        """See `examples.Examples`; nothing is random. A row is as long as the longer side with its end mark."""
        del rng
        pairs = self.pairs[records]
        sides = (self.source,) if self.target is None else (self.source, self.target)
        return {"pair": pairs, "length": np.max([side.lengths[pairs] for side in sides], axis=0) + 1}

    def too_long(self, length):
        return int((self.draw(np.arange(len(self)), None)["length"] > length).sum())

    def batch(self, drawn, length, uniform):
        del uniform
        pairs = drawn["pair"]
        return self.arrays(pairs, np.arange(len(pairs)), rows=len(pairs), lengths=(length, length))

    def arrays(self, pairs, row, *, rows, lengths):
        """The arrays of a batch; a side that does not fit its row loses its end.

        Args:
            pairs: [n] indices of pairs.
            row: [n] ascending, the row of each pair; pairs of one row lie one after the other.
            rows: rows of the batch.
            lengths: tokens of both sides of a row.
        """
        first = np.searchsorted(row, row)  # the first pair of the same row
        segment = np.arange(len(row)) - first + 1
        place = {"row": row, "first": first, "segment": segment, "rows": rows}
        ids, segments, positions = _side(self.source, pairs, length=lengths[0], **place)
        batch = {"source": ids, "source_segments": segments, "source_positions": positions}
        if self.target is not None:
            ids, segments, positions = _side(self.target, pairs, length=lengths[1], **place)
            inputs = np.zeros_like(ids)
            inputs[:, 1:] = ids[:, :-1]
            inputs = np.where(positions == 0, tokenizer.BOS, inputs) * (segments > 0)
            batch |= {"inputs": inputs, "targets": ids, "target_segments": segments, "target_positions": positions}
        return {name: array.astype(np.int32, copy=False) for name, array in batch.items()}


def _side(texts, pairs, *, row, first, segment, rows, length):
    """``(ids with end marks, segments, positions)`` of one side, each [rows, length] int32."""
    start = texts.offsets[pairs]
    size = np.minimum(texts.offsets[pairs + 1] - start + 1, length)  # with the end mark; a longer one is cut
    behind = np.concatenate([[0], size.cumsum()])  # tokens of all pairs before
    place = row * length + behind[:-1] - behind[first]
    within = np.arange(behind[-1]) - np.repeat(behind[:-1], size)
    at = np.repeat(place, size) + within
    ids, segments, positions = (np.zeros(rows * length, np.int32) for _ in range(3))
    # The last place of a pair is its end mark; what is read there (the next row's first id) is overwritten.
    ids[at] = np.take(texts.values, np.repeat(start, size) + within, mode="clip") if len(texts.values) else 0
    ids[place + size - 1] = tokenizer.EOS
    segments[at] = np.repeat(segment, size)
    positions[at] = within
    return tuple(array.reshape(rows, length) for array in (ids, segments, positions))
