"""Variants are new texts made of the words of a set, the same for a seed, and never those that are held out."""

import numpy as np
import pytest
import sklearn.feature_extraction.text
import sklearn.metrics.pairwise

from lwt.compress import variants
from lwt.data import text_fields

TEXTS = [
    "play some quiet jazz now",
    "Play some loud jazz now",
    "play a quiet song now",
    "book a table for two",
    "book a table for five people",
    "will it rain in Paris",
    "will it snow in Rome tomorrow",
]
SINGLE = [(text,) for text in TEXTS]
PAIRS = [*zip(TEXTS, TEXTS[1:])]


@pytest.mark.parametrize("records", [SINGLE, PAIRS])
def test_they_are_new_and_made_of_the_words_of_the_set(records):
    found = variants.draw(records, count=200)
    words = {word for text in TEXTS for word in text.split()}
    assert len(found) > 50 and {len(record) for record in found} == {len(records[0])}
    assert {word for record in found for text in record for word in text.split()} <= words
    keys = [text_fields.key(record) for record in found]
    assert len({*keys}) == len(keys) and not {*keys} & {*map(text_fields.key, records)}
    assert max(len(text.split()) for record in found for text in record) == 6  # no longer than the longest
    assert variants.draw(records, count=200) == found != variants.draw(records, count=200, seed=1)


def test_those_held_out_are_never_drawn():
    found = variants.draw(SINGLE, count=200)
    held = {*map(text_fields.key, found[::2])}
    others = variants.draw(SINGLE, count=200, without=held)
    assert not held & {*map(text_fields.key, others)} and {*found[1::2]} <= {*others}


def test_a_word_gives_way_to_one_with_the_same_neighbours():
    found = variants.draw([("play quiet jazz",), ("play loud jazz",)], count=2000)
    assert ("play loud",) in found and ("jazz play jazz",) not in found
    assert {text.split()[-1] for (text,) in found} >= {"jazz"}
    assert variants.draw([], count=3) == []


def test_the_nearest_texts_are_those_of_the_cosine(monkeypatch):
    monkeypatch.setattr(variants, "CHUNK", 3)
    counts = sklearn.feature_extraction.text.TfidfVectorizer(token_pattern=r"\S+").fit_transform(TEXTS)
    alike = sklearn.metrics.pairwise.cosine_similarity(counts)
    np.fill_diagonal(alike, -1)
    found = variants.nearest(TEXTS, count=2)
    assert found.shape == (7, 2)
    rows = np.arange(7)[:, None]
    np.testing.assert_allclose(alike[rows, found], -np.sort(-alike, axis=1)[:, :2], atol=1e-12)
    assert found[0, 0] == 1 and found[3, 0] == 4
