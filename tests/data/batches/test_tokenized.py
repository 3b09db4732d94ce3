"""Tokenized texts: rows in one array, and the cache of the token ids."""

import pytest

from lwt import errors
from lwt.data import sources, text, tokenizer
from lwt.data.batches import tokenized


def test_rows_of_different_lengths():
    rows = [[4, 5], [], [6]]
    ragged = tokenized.RaggedArray.of(rows)
    assert len(ragged) == 3 and [row.tolist() for row in ragged] == rows and ragged.lengths.tolist() == [2, 0, 1]


def test_tokens_are_cached_by_content(tmp_path, monkeypatch):
    source = sources.load("generated:arithmetic,size=50")
    tokens = tokenizer.train([r["source"] for r in source], tmp_path / "t.model", vocabulary=100)
    options = {"fields": ("source", "target"), "folders": (tmp_path / "cache",)}
    first = tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), **options)
    assert tokens.decode(list(first[1])) == [record["target"] for record in source]
    monkeypatch.setattr(tokenizer.Tokenizer, "encode", lambda *_: pytest.fail("the cache was not used"))
    cached = tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), **options)
    monkeypatch.undo()
    tokenized.tokenize(source, tokens, cleaner=text.Cleaner(lowercase=False), **options)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    for a, b in zip(first, cached, strict=True):
        assert (a.values == b.values).all() and (a.offsets == b.offsets).all()


def test_a_field_that_is_not_text_is_named(tmp_path):
    source = sources.Source("made", [{"text": "x"}, {"text": 7}], ("text",), "f")
    tokens = tokenizer.train(["x"] * 9, tmp_path / "t.model", vocabulary=100)
    with pytest.raises(errors.DataError, match="made, record 1: field 'text' is not text: 7"):
        tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), fields=("text",), folders=(tmp_path,))
