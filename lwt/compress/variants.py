"""Variants of texts and of pairs of texts: new inputs, near those of a training set, for a teacher to label.

A word is replaced by another one that stands between the same two neighbours somewhere in the set, or else beside the
same left neighbour. Some words are left out. A single text may continue with the end of another one. The second text of
a pair is its own, one of those most like it, any other one, or the first text.
"""

import collections
import dataclasses
import random

import numpy as np

from lwt import extras
from lwt.data import text_fields

REPLACED, LEFT_OUT = (0.05, 0.1, 0.2, 0.4), (0.0, 0.05, 0.15)  # shares of a text's words; each text draws one of both
JOINED = 0.3  # share of the single texts that continue with another one
CHANGED = 0.5  # share of the texts of pairs whose words change
PARTNERS = {"own": 0.35, "near": 0.4, "other": 0.15, "first": 0.1}  # the second text of a pair
NEAR = 12  # a text is "near" if it is one of so many nearest
CHUNK = 512  # texts that are compared with all others at a time
BEGIN, END = "", ""  # the neighbours of the first and of the last word


def draw(records, *, count, seed=0, without=()):
    """New records like those given.

    Args:
        records: tuples of one or two texts.
        count: how many to draw. Those that equal a given one, or one before, are left out, so there may be fewer.
        seed: of everything that is drawn.
        without: keys (see `text_fields.key`) of records that must not be drawn, such as those of a test set.

    Returns:
        A list of tuples of texts.
    """
    if not records:
        return []
    rng, taken = random.Random(seed), {*without, *map(text_fields.key, records)}
    maker = _Maker.of(records, rng)
    found = []
    for record in (maker.make(rng.randrange(len(records))) for _ in range(count)):
        key = text_fields.key(record)
        if all(record) and key not in taken:
            taken.add(key)
            found.append(record)
    return found


@dataclasses.dataclass(frozen=True)
class _Maker:
    """Makes variants of the texts `sides`, a list of words for each text of each side.

    Attributes:
        between: ``{(word before, word after): [word]}``, and `behind`: ``{word before: [word]}``, lower-cased keys.
        near: indices `[n NEAR]` of the texts most like the second text of each pair; None for single texts.
    """

    sides: tuple
    between: dict
    behind: dict
    near: np.ndarray | None
    rng: random.Random

    @classmethod
    def of(cls, records, rng):
        sides = tuple([text.split() for text in texts] for texts in zip(*records, strict=True))
        between, behind = collections.defaultdict(list), collections.defaultdict(list)
        for words in (words for side in sides for words in side):
            framed = [BEGIN, *map(str.lower, words), END]
            for before, word, after in zip(framed, words, framed[2:], strict=False):
                between[before, after].append(word)
                behind[before].append(word)
        near = nearest([" ".join(words) for words in sides[1]]) if len(sides) == 2 else None
        return cls(sides, between, behind, near, rng)

    def make(self, index):
        """A variant of a record, a tuple of texts."""
        first, rng = self.sides[0][index], self.rng
        if self.near is None:
            if rng.random() < JOINED:
                other = rng.choice(self.sides[0])
                longest = max(len(first), len(other))
                first = (first[: rng.randint(1, len(first))] + other[rng.randrange(len(other)) :])[:longest]
            return (self._changed(first),)
        (partner,) = rng.choices([*PARTNERS], weights=[*PARTNERS.values()])
        second = {
            "own": self.sides[1][index],
            "near": self.sides[1][rng.choice(self.near[index])],
            "other": rng.choice(self.sides[1]),
            "first": first,
        }[partner]
        changed = [rng.random() < CHANGED or partner == "first", rng.random() < CHANGED]
        return tuple(self._changed(x) if y else " ".join(x) for x, y in zip((first, second), changed, strict=True))

    def _changed(self, words):
        """The text of the words, some of them replaced, some left out."""
        rng, found = self.rng, [*words]
        replaced, left_out = rng.choice(REPLACED), rng.choice(LEFT_OUT)
        for i in range(len(found)):
            if rng.random() < replaced:
                before = found[i - 1].lower() if i else BEGIN
                after = found[i + 1].lower() if i + 1 < len(found) else END
                others = self.between.get((before, after), ())
                others = others if len({*others}) > 1 else self.behind.get(before, ())
                found[i] = rng.choice(others or [found[i]])
        return " ".join([word for word in found if rng.random() >= left_out] or found)


def nearest(texts, *, count=NEAR):
    """Indices `[n count]`, or fewer, of the texts most like each one by the cosine of TF-IDF, the most alike first.

    Raises:
        lwt.errors.ConfigError: scikit-learn is missing.
    """
    features = extras.load("sklearn.feature_extraction.text", "variants of pairs of texts")
    counts = features.TfidfVectorizer(token_pattern=r"\S+").fit_transform(texts)
    found = []
    for start in range(0, len(texts), CHUNK):
        alike = (counts[start : start + CHUNK] @ counts.T).toarray()
        alike[np.arange(len(alike)), start + np.arange(len(alike))] = -1  # not the text itself
        found.append(np.argsort(-alike, axis=1, kind="stable")[:, : min(count, max(len(texts) - 1, 1))])
    return np.concatenate(found)
