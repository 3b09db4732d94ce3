"""Rows of texts for a model without lwt."""

import pathlib

import pytest

from lwt.export.service import rows

FOLDER = pathlib.Path(__file__).parents[3] / "pretrained/snips-int4"
ROW = {"pad": 0, "longest": 8, "begin": [1], "between": [2], "end": [2], "segments": [1, 2], "cut": "end"}


def made(texts):
    settings = {"row": ROW, "texts": texts, "clean": {}, "tokenizer": {"file": "tokenizer.model"}}
    return rows.Rows(settings | {"rows": 0, "length": 0}, FOLDER)


def test_texts_of_any_length_become_rows():
    ((numbers, batch),) = made(1).batches(["play some jazz " * 9, "", "jazz"])
    lengths = dict(zip(numbers, (batch["segments"] > 0).sum(1).tolist(), strict=True))
    assert lengths[0] == 8 and lengths[1] == 2 < lengths[2] and batch["ids"].shape == (3, 8)
    assert [*made(1).batches([])] == []


@pytest.mark.parametrize(
    "count, texts, message",
    [
        (1, "one text", "give a list of texts$"),
        (1, ["one", "a \ud83d"], "text 2 holds half a surrogate pair"),
        (2, ["a\tb", "no tab"], "text 2 must be two texts with a tab between"),
    ],
)
def test_what_is_no_text_is_named(count, texts, message):
    with pytest.raises(ValueError, match=message):
        list(made(count).batches(texts))
