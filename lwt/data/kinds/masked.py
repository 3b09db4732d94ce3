"""Pre-training examples from running text: two segments that follow each other or do not, some tokens masked.

EmbBERT-Q, Section 4.2: half of the pairs are contiguous, in the other half the second segment is drawn from another
document; tokens are masked with a chance of 1/6. Pairs and masks are drawn anew in every epoch. One deviation: in a row
of n tokens, n/6 of them are masked, rounded up or down by chance, and not each by a throw of its own. Every token is
masked as often, and the number of masked places of a batch is fixed.
"""

import dataclasses
import functools
import logging

import numpy as np

from lwt import errors
from lwt.data import corpus, sources, tokenizer
from lwt.data.batches import bucketed
from lwt.data.kinds import text_data

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Masking:
    """What happens to the tokens of a row, but for its special ones and unknown ones.

    Attributes:
        rate: share of them that is to be predicted.
        mask, random, keep: shares of those that become [MASK], become any other piece, stay.

    Raises:
        lwt.errors.ConfigError: a share that is none, or shares that do not sum to 1.
    """

    rate: float
    mask: float
    random: float
    keep: float

    def __post_init__(self):
        shares = (self.mask, self.random, self.keep)
        if not 0 < self.rate < 1 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise errors.ConfigError(
                f"data.masking {dataclasses.asdict(self)}: rate should lie between 0 and 1, and mask, random and keep "
                "should sum to 1"
            )

    def count(self, length):
        """Places for masked tokens in a row of `length`, of which three are special at least."""
        return max(1, int(np.ceil(self.rate * (length - 3) - 1e-9)))

    @classmethod
    def of(cls, given):
        """From a name of `PRESETS`, or a mapping of the four shares."""
        if isinstance(given, str):
            if given not in PRESETS:
                raise errors.ConfigError(f"data.masking={given!r}; {errors.suggest(given, PRESETS)}")
            return PRESETS[given]
        given = dict(given)
        names = [field.name for field in dataclasses.fields(cls)]
        if sorted(given) != sorted(names):
            raise errors.ConfigError(f"data.masking has {', '.join(given)}; it should have {', '.join(names)}")
        return cls(**given)


PRESETS = {
    "paper": Masking(rate=1 / 6, mask=0.70, random=0.15, keep=0.15),
    "code": Masking(rate=0.15, mask=0.80, random=0.10, keep=0.10),  # of EmbBERT-Q, and BERT's
}


class Examples:
    """Pairs of segments of a text, for `bucketed.Bucketed` and `bucketed.Padded`.

    An epoch takes every segment but the last of each document once as the first of a pair.

    Args:
        text: a `corpus.Corpus`.
        max_length: tokens of a row; of a longer pair, the longer segment is cut first: the first one at its start, the
            second at its end.
        masking: a `Masking`.
        pieces: range of the ids that may be masked, and put in place of others.
        join: a segment is one line, or with `join` > 0 as many lines of a document as have together at most so many
            tokens (a longer line is cut in pieces).
        limit: use so many pairs only, spread evenly; 0: all.

    Raises:
        lwt.errors.DataError: no document has two lines.
    """

    def __init__(self, text, *, max_length, masking, pieces, join=0, limit=0):
        self._values, self._masking, self._pieces, self._max_length = text.values, masking, pieces, max_length
        # Segment i is values[bounds[i]:bounds[i + 1]], in the document of the segments [low[i], high[i]).
        self._bounds, documents = (text.offsets, text.documents) if not join else joined(text, join)
        sizes = np.diff(documents)
        self._low, self._high = np.repeat(documents[:-1], sizes), np.repeat(documents[1:], sizes)
        self._segments = len(self._bounds) - 1
        self._firsts = np.flatnonzero(np.arange(self._segments) + 1 < self._high)
        if not len(self._firsts) or self._segments < 3:
            raise errors.DataError(
                f"none of {len(sizes)} documents has two segments, with a third to draw from; a blank line ends one"
            )
        if 0 < limit < len(self._firsts):
            self._firsts = self._firsts[np.linspace(0, len(self._firsts) - 1, limit).astype(np.int64)]
        self.fingerprint = sources.digest(text.fingerprint, max_length, masking, join, limit)

    def __len__(self):
        return len(self._firsts)

    def masked(self, length):
        """Masked places of a row of `length`."""
        return self._masking.count(length)

    def draw(self, records, rng):
        """See `rows`. Exactly half of the pairs (half and one, of an odd number) are contiguous."""
        first = self._firsts[records]
        contiguous = rng.permutation(len(first)) % 2 == 0
        # Another document's segment; of a lone document, any other but the two.
        low, high = self._low[first], self._high[first]
        lone = high - low == self._segments
        low, high = np.where(lone, first, low), np.where(lone, first + 2, high)
        other = (rng.random(len(first)) * (self._segments - (high - low))).astype(np.int64)
        second = np.where(contiguous, first + 1, np.where(other < low, other, other + high - low))
        start = np.stack([self._bounds[first], self._bounds[second]], axis=1)
        whole = np.stack([self._bounds[first + 1], self._bounds[second + 1]], axis=1) - start
        size = np.stack(bucketed.truncate(whole[:, 0], whole[:, 1], self._max_length - 3), axis=1)
        start[:, 0] += whole[:, 0] - size[:, 0]
        return {
            "start": start,
            "size": size,
            "next_sentence": contiguous.astype(np.int32),
            "length": size.sum(axis=1) + 3,
            "cut": (size < whole).any(axis=1),
        }

    def batch(self, drawn, length, uniform):
        """``ids``, ``segments`` [n length], ``masked_positions``, ``masked_targets``, ``masked_weights`` [n m] and
        ``next_sentence`` [n], with m = `masked` (length); weights are float32, 0 where there is no masked token."""
        sides = [(self._values, drawn["start"][:, i], drawn["size"][:, i]) for i in (0, 1)]
        ids, segments = bucketed.assemble(sides, length)
        positions, weights = self._choose(ids, uniform(length), uniform(1))
        targets = np.take_along_axis(ids, positions, axis=1)
        shown = self._replace(targets, uniform(positions.shape[1]), uniform(positions.shape[1]))
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

    def _choose(self, ids, scores, rounding):
        """(positions [n m], weights [n m]): the tokens with the smallest of `scores`, as many as are to be masked."""
        may = (ids >= self._pieces.start) & (ids < self._pieces.stop)
        count = np.floor(self._masking.rate * may.sum(axis=1, keepdims=True) + rounding)
        places = self.masked(ids.shape[1])
        order = np.argsort(np.where(may, scores, 2), axis=1)[:, :places]
        weights = (np.arange(places) < count).astype(np.float32)
        return order * (weights > 0), weights

    def _replace(self, targets, which, piece):
        """What stands in place of `targets`."""
        size = len(self._pieces)
        drawn = np.minimum(self._pieces.start + (piece * size).astype(np.int32), self._pieces.stop - 1)
        shown = np.where(which < self._masking.mask + self._masking.random, drawn, targets)
        return np.where(which < self._masking.mask, tokenizer.MASK, shown).astype(np.int32)


def joined(text, tokens):
    """Segments of as many lines of a document as have at most `tokens` tokens; a longer line is cut in pieces.

    Returns:
        bounds [segments + 1], of the tokens, and documents [documents + 1], of the segments.
    """
    bounds, documents = [0], [0]
    for first, last in zip(text.documents[:-1], text.documents[1:], strict=True):
        lines = text.offsets[first : last + 1]
        while bounds[-1] < lines[-1]:
            end = lines[np.searchsorted(lines, bounds[-1] + tokens, side="right") - 1]
            bounds.append(int(end) if end > bounds[-1] else min(bounds[-1] + tokens, int(lines[-1])))
        documents.append(len(bounds) - 1)
    return np.asarray(bounds, np.int64), np.asarray(documents, np.int64)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A text to evaluate on.

    Attributes:
        name: ``KIND:NAME@SPLIT``.
        examples: `Examples`.
    """

    name: str
    examples: Examples
    references = groups = None  # there is nothing to compare with but the text itself

    @property
    def sources(self):
        """A number for each pair."""
        return range(len(self.examples))


class Masked(text_data.TextData):
    """The data of a pre-training run, by its config's section ``data``; see `text_data.TextData`.

    ``data.train`` and ``data.validation`` are running text, or any records with a text (see `corpus`);
    ``data.masking`` is a name of `PRESETS` or the four shares, ``data.join`` the tokens of a segment (0: a segment is a
    line). Of ``data.train``, the first ``data.max_train_records`` records are used (0: all).
    """

    outputs = 0  # of a classifier: there is none

    @property
    def test(self):
        """The name of the text to evaluate on."""
        return self._section.test or self._section.validation

    def named(self, split):
        """The name of a split; "validation" and "test" (or "") are those of the config."""
        configured = {"": self.test, "test": self.test, "validation": self._section.validation}
        return configured.get(split) or sources.at(self.test, split)

    def training(self, *, process=0, processes=1):
        """Endless batches (`bucketed.Bucketed`)."""
        batches = self._bucketed(process=process, processes=processes)
        shape = self._measured
        LOG.info(
            "%s: %d pairs, %.1f batches an epoch, %.1f tokens a pair, %.1f %% of the places are real, rows of %s",
            self._train_source.name,
            len(self._train_examples),
            shape["batches"],
            shape["tokens"] / self._section.rows,
            100 * shape["real_share"],
            ", ".join(map(str, shape["lengths"])),
        )
        return batches

    def evaluation(self, name, *, limit=0):
        """The text ``KIND:NAME@SPLIT``; `limit` pairs of it if that is not 0."""
        source = self._load(name, load=corpus.load, split="validation")
        return Evaluation(source.name, self._examples(source, limit=limit))

    def example(self):
        """A training batch of zeros: its names, shapes and types."""
        count, length = self._section.rows, self._lengths[0]
        places = (count, self._train_examples.masked(length))
        return {
            "ids": np.zeros((count, length), np.int32),
            "segments": np.zeros((count, length), np.int32),
            "masked_positions": np.zeros(places, np.int32),
            "masked_targets": np.zeros(places, np.int32),
            "masked_weights": np.zeros(places, np.float32),
            "next_sentence": np.zeros(count, np.int32),
        }

    @functools.cached_property
    def _train_source(self):
        source, most = self._load(self._section.train, load=corpus.load), self._section.max_train_records
        return source[:most] if most else source

    @functools.cached_property
    def _train_examples(self):
        return self._examples(self._train_source, limit=0)

    def _examples(self, source, *, limit):
        text = corpus.tokenize(source, self.tokenizer, self._cleaner, cache_dir=self._workdir / "tokens")
        return Examples(
            text,
            max_length=self.max_length,
            masking=Masking.of(self._section.masking),
            pieces=range(self.tokenizer.first, self.tokenizer.pieces),
            join=self._section.join,
            limit=limit,
        )

    def _texts(self):
        return (line for texts, _ in corpus.lines(self._train_source) for line in texts)
