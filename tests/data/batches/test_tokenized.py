"""Tokenized texts: rows in one array, and the cache of the token ids."""

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources, text, tokenizer
from lwt.data.batches import tokenized


def test_rows_of_different_lengths():
    rows = [[4, 5], [], [6]]
    ragged = tokenized.RaggedArray.of(rows)
    assert len(ragged) == 3 and [row.tolist() for row in ragged] == rows and ragged.lengths.tolist() == [2, 0, 1]
    twice = tokenized.RaggedArray.concatenate([ragged, ragged])
    assert [row.tolist() for row in twice] == rows * 2 and twice.values.dtype == np.int32


def test_tokens_are_cached_by_content_and_a_damaged_cache_is_written_again(tmp_path, monkeypatch):
    source = sources.load("generated:arithmetic,size=50")
    tokens = tokenizer.train([r["source"] for r in source], tmp_path / "t.model", vocabulary=100)
    options = {"fields": ("source", "target"), "cache_dir": tmp_path / "cache"}
    first = tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), **options)
    assert tokens.decode(list(first[1])) == [record["target"] for record in source]
    (cache,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr(tokenizer.Tokenizer, "encode", lambda *_: pytest.fail("the cache was not used"))
    cached = tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), **options)
    monkeypatch.undo()
    tokenized.tokenize(source, tokens, cleaner=text.Cleaner(lowercase=False), **options)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    content = cache.read_bytes()
    for damage in (content[:200], content[:400] + bytes([content[400] ^ 1]) + content[401:], b""):
        cache.write_bytes(damage)
        again = tokenized.tokenize(source, tokens, cleaner=text.Cleaner(), **options)
        for a, b, c in zip(first, cached, again, strict=True):
            assert (a.values == b.values).all() and (a.values == c.values).all() and (a.offsets == c.offsets).all()
        assert cache.read_bytes() == content


def test_a_field_that_is_not_text_is_named():
    source = sources.Source("made", [{"text": "x"}, {"text": 7}], ("text",), "f")
    with pytest.raises(errors.DataError, match="made, record 1: field 'text' is not text: 7"):
        tokenized.tokenize(source, tokenizer, cleaner=text.Cleaner(), fields=("text",))
