"""The config of a run from a Marian folder: its data, its decoding, and what does not fit."""

import json
import logging

import numpy as np
import pytest

from lwt import errors
from lwt.data import marian_tokenizer
from lwt.huggingface import marian, translator
from lwt.machine import config_folder
from tests.data import test_marian_tokenizer


@pytest.fixture
def given(tmp_path):
    """``given(**changes) -> (config, weights)``, filled from a folder whose config.json has the changes."""
    folder = test_marian_tokenizer.written(tmp_path / "marian")
    (tmp_path / "new").mkdir()
    rows = len(json.loads((folder / "vocab.json").read_text()))
    ids = dict(pad_token_id=rows - 1, decoder_start_token_id=rows - 1, eos_token_id=0)

    def make(*, generation=None, rows=rows, **changes):
        (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 64, **ids, **changes}))
        if generation:
            (folder / "generation_config.json").write_text(json.dumps(generation))
        table = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
        config = config_folder.defaults()
        found = translator.fill(
            config, folder, new=tmp_path / "new", section={"width": 3}, weights={"embed/embedding": table}
        )
        return config, found, table

    return make


def test_data_and_tables(given, tmp_path):
    config, weights, table = given()
    assert config.data.kind == "pairs" and config.data.fields == ("source", "target")
    assert (config.data.row_length, config.data.max_tokens) == (64, 63)
    assert dict(config.model) == {"width": 3, "source_vocabulary": 0, "tied_output": True, "logits_bias": True}
    order = marian_tokenizer.Tokenizer(tmp_path / "new" / marian_tokenizer.FILE).sides[0].order
    np.testing.assert_array_equal(weights["embed/embedding"][1:], table[order[1:]])
    np.testing.assert_array_equal(weights["logits_bias"], [marian.NEVER] + [0] * len(table))
    assert not weights["embed/embedding"][0].any()


def test_decoding(given, caplog):
    plain = {"name": "translate", "lowercase": False, "beams": 1, "penalty": "power", "length_penalty": 1.0}
    assert dict(given()[0].task) == {**plain, "force_end": False}
    found = given(num_beams=6, forced_eos_token_id=0, length_penalty=2)[0].task
    assert dict(found) == {**plain, "beams": 6, "length_penalty": 2.0, "force_end": True}
    with caplog.at_level(logging.WARNING):
        found = given(num_beams=6, generation={"num_beams": 4, "no_repeat_ngram_size": 3, "early_stopping": False})[
            0
        ].task
    assert found.beams == 4
    assert "no_repeat_ngram_size=3 is left out: lwt decodes with 0" in caplog.text and "early" not in caplog.text


def test_what_does_not_fit_is_named(given):
    for change, message in (
        (dict(eos_token_id=5), "eos_token_id=5 must be 0, as the tokenizer has it"),
        (dict(decoder_start_token_id=0), "decoder_start_token_id=0 must be"),
        (dict(max_position_embeddings=0), "max_position_embeddings=0 must be a whole number of at least 1"),
        (dict(rows=9), "embed/embedding has 9 rows; the tokenizer has .* pieces"),
    ):
        with pytest.raises(errors.CheckpointError, match=message):
            given(**change)
