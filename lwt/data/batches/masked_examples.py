"""Pre-training examples from running text: two segments that follow each other or do not, and some masked tokens.

EmbBERT-Q, Section 4.2: half of the pairs are contiguous; in the other half, the second segment is drawn from another
document; each token is masked with probability 1/6. Pairs and masks are drawn again in every epoch. One deviation: of a
row of n tokens, n/6 are masked, rounded up or down at random, so that a batch has a fixed number of masked places.
"""

import dataclasses

import numpy as np

from lwt import errors
from lwt.data import sources
from lwt.data.batches import examples, text_rows


@dataclasses.dataclass(frozen=True)
class Masking:
    """What happens to the tokens of a row, except special and unknown ones.

    Attributes:
        rate: the share of tokens to predict.
        mask, random, keep: the shares of those that become [MASK], become a random piece, or stay.

    Raises:
        lwt.errors.ConfigError: a rate outside (0, 1), a negative share, or shares that do not sum to 1.
    """

    rate: float
    mask: float
    random: float
    keep: float

    def __post_init__(self):
        shares = (self.mask, self.random, self.keep)
        if not 0 < self.rate < 1 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise errors.ConfigError(
                f"data.masking {dataclasses.asdict(self)}: rate must lie between 0 and 1, and mask, random and keep "
                "must sum to 1"
            )

    def count(self, length):
        """Places for masked tokens in a row of `length`, at least three of them special tokens."""
        return max(1, int(np.ceil(self.rate * (length - 3) - 1e-9)))

    @classmethod
    def of(cls, given):
        """Makes one from a name of `PRESETS` or a mapping of the four shares."""
        if isinstance(given, str):
            if given not in PRESETS:
                raise errors.ConfigError(f"data.masking={given!r}; {errors.suggest(given, PRESETS)}")
            return PRESETS[given]
        given = dict(given)
        names = [field.name for field in dataclasses.fields(cls)]
        if sorted(given) != sorted(names):
            raise errors.ConfigError(f"data.masking has {', '.join(given)}; it must have {', '.join(names)}")
        return cls(**given)


PRESETS = {
    "paper": Masking(rate=1 / 6, mask=0.70, random=0.15, keep=0.15),
    "code": Masking(rate=0.15, mask=0.80, random=0.10, keep=0.10),  # that of EmbBERT-Q's code, and of BERT
}


class MaskedExamples(examples.Examples):
    """Pairs of segments of running text.

    In an epoch, every segment except the last of each document is once the first of a pair.

    Args:
        text: a `corpus.Corpus`.
        max_length: tokens of a row. Of a longer pair, the longer segment is cut first: the first segment at its start,
            the second at its end.
        masking: a `Masking`.
        frame: the `frame.Frame` of the tokenizer, with the id of a masked token.
        pieces: the number of ids; all but the special ones may be masked and may replace others.
        join: 0: a segment is a line; else as many lines of a document as have at most `join` tokens together (a
            longer line is cut into pieces).
        limit: the number of pairs to use, spread evenly; 0: all.

    Raises:
        lwt.errors.DataError: no document has two lines.
    """

    def __init__(self, text, *, max_length, masking, frame, pieces, join=0, limit=0):
        self._values, self._masking, self._max_length, self._frame = text.values, masking, max_length, frame
        self._maskable = np.ones(pieces, bool)
        self._maskable[list(frame.specials)] = False
        self._pieces = np.flatnonzero(self._maskable)
        # Segment i is values[bounds[i]:bounds[i + 1]], in the document of the segments [low[i], high[i]).
        self._bounds, documents = (text.offsets, text.documents) if not join else join_lines(text, join)
        sizes = np.diff(documents)
        self._low, self._high = np.repeat(documents[:-1], sizes), np.repeat(documents[1:], sizes)
        self._segments = len(self._bounds) - 1
        self._firsts = np.flatnonzero(np.arange(self._segments) + 1 < self._high)
        if not len(self._firsts) or self._segments < 3:
            raise errors.DataError(
                f"none of {len(sizes)} documents (a blank line ends one) has two segments, with a third to draw from"
            )
        if 0 < limit < len(self._firsts):
            self._firsts = self._firsts[np.linspace(0, len(self._firsts) - 1, limit).astype(np.int64)]
        self.fingerprint = sources.digest(text.fingerprint, max_length, masking, join, limit)

    def __len__(self):
        return len(self._firsts)

    def masked(self, length):
        """The number of masked places in a row of `length`."""
        return self._masking.count(length)

    def draw(self, records, rng):
        """See `examples.Examples`. Half of the pairs are contiguous (the larger half, if their number is odd)."""
        first = self._firsts[records]
        contiguous = rng.permutation(len(first)) % 2 == 0
        # The segment of another document; if there is only one document, any but these two.
        low, high = self._low[first], self._high[first]
        lone = high - low == self._segments
        low, high = np.where(lone, first, low), np.where(lone, first + 2, high)
        other = (rng.random(len(first)) * (self._segments - (high - low))).astype(np.int64)
        second = np.where(contiguous, first + 1, np.where(other < low, other, other + high - low))
        start = np.stack([self._bounds[first], self._bounds[second]], axis=1)
        full = np.stack([self._bounds[first + 1], self._bounds[second + 1]], axis=1) - start
        special = self._frame.count(2)
        size = np.stack(text_rows.truncate(full[:, 0], full[:, 1], limit=self._max_length - special), axis=1)
        start[:, 0] += full[:, 0] - size[:, 0]
        drawn = {"start": start, "size": size, "length": size.sum(axis=1) + special}
        return drawn | {"next_sentence": contiguous.astype(np.int32)}

    def batch(self, drawn, length, uniform):
        """``ids``, ``segments`` [n length], ``masked_positions``, ``masked_targets``, ``masked_weights`` [n m] and
        ``next_sentence`` [n], with m = ``masked(length)``; weights are float32, 0 where no token is masked."""
        sides = [(self._values, drawn["start"][:, i], drawn["size"][:, i]) for i in (0, 1)]
        ids, segments = text_rows.assemble(sides, length, frame=self._frame)
        positions, weights = self._choose(ids, scores=uniform(length), rounding=uniform(1))
        targets = np.take_along_axis(ids, positions, axis=1)
        shown = self._replace(targets, action=uniform(positions.shape[1]), piece=uniform(positions.shape[1]))
        # Places without a token to mask point at [CLS], and leave it as it is.
        np.put_along_axis(ids, positions, np.where(weights > 0, shown, targets), axis=1)
        return {
            "ids": ids,
            "segments": segments,
            "masked_positions": positions.astype(np.int32),
            "masked_targets": targets * (weights > 0),
            "masked_weights": weights,
            "next_sentence": drawn["next_sentence"],
        }

    def _choose(self, ids, *, scores, rounding):
        """``(positions [n m], weights [n m])`` of the tokens to mask: those with the smallest `scores`."""
        maskable = self._maskable[ids]
        count = np.floor(self._masking.rate * maskable.sum(axis=1, keepdims=True) + rounding)
        places = self.masked(ids.shape[1])
        order = np.argsort(np.where(maskable, scores, 2), axis=1)[:, :places]
        weights = (np.arange(places) < count).astype(np.float32)
        return order * (weights > 0), weights

    def _replace(self, targets, *, action, piece):
        """What the model sees in place of `targets`; `action` and `piece` are numbers in [0, 1)."""
        size = len(self._pieces)
        random = self._pieces[np.minimum((piece * size).astype(np.int32), size - 1)]
        shown = np.where(action < self._masking.mask + self._masking.random, random, targets)
        return np.where(action < self._masking.mask, self._frame.mask, shown).astype(np.int32)


def join_lines(text, tokens):
    """Joins lines to segments of at most `tokens` tokens, document by document; a longer line is cut into pieces.

    Returns:
        ``(bounds [segments + 1] of the tokens, documents [documents + 1] of the segments)``.
    """
    bounds, documents = [0], [0]
    for first, last in zip(text.documents[:-1], text.documents[1:], strict=True):
        lines = text.offsets[first : last + 1]
        while bounds[-1] < lines[-1]:
            end = lines[np.searchsorted(lines, bounds[-1] + tokens, side="right") - 1]
            bounds.append(int(end) if end > bounds[-1] else min(bounds[-1] + tokens, int(lines[-1])))
        documents.append(len(bounds) - 1)
    return np.asarray(bounds, np.int64), np.asarray(documents, np.int64)
