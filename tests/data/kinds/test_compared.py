"""Pairs of texts with numbers: two fields, batches of two rows, and answers that are numbers."""

import json

import numpy as np
import pytest

from lwt import errors
from lwt.data.kinds import compared
from lwt.machine import config_folder
from tests.huggingface import small

WORDS = "old new cold warm house sea wind".split()


@pytest.fixture
def make(tmp_path):
    """``make() -> Compared`` of 60 pairs with a tokenizer.json."""
    rows = [
        {"sentence1": f"the {WORDS[i % 7]} house", "sentence2": f"a {WORDS[i % 5]} house", "label": 5 * (i % 11) / 10}
        for i in range(60)
    ]
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small.word_piece().save(str(tmp_path / "t.json"))

    def make(fields=()):
        section = config_folder.defaults().data
        section.kind, section.train, section.fields = "compared", f"folder:{tmp_path}/pairs", fields
        section.tokenizer.path, section.rows, section.row_length = str(tmp_path / "t.json"), 4, 16
        section.clean = {key: type(value)() for key, value in section.clean.items()}
        return compared.Compared(section, tmp_path / "run")

    return make


def test_batches_and_answers(make):
    data = make()
    batch, example = next(data.training()), data.example()
    assert {name: (a.shape, a.dtype) for name, a in batch.items()} == {
        name: (a.shape, a.dtype) for name, a in example.items()
    }
    assert data.labels.regression and data.outputs == 1 and data.fields == ("sentence1", "sentence2")
    found = data.from_texts(["the old house\ta new house"])
    assert len(next(iter(data.batches(found)))["second_ids"][0]) == 16
    assert [*map(float, data.answers(np.array([0.25, 1.0])))] == [0.25, 1.0]


def test_two_texts_are_needed(make):
    with pytest.raises(errors.ConfigError, match="must name two texts to compare: data.kind='compared'"):
        next(make(fields=("sentence1",)).training())
