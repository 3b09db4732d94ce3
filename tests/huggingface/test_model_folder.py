"""Folders as they are found: in half precision, with old names and other heads."""

import json

import numpy as np
import pytest
import safetensors.numpy

from lwt.huggingface import model_folder
from tests.huggingface import small


@pytest.fixture
def given(tmp_path):
    """``(weights, arrays)`` of the folder `tmp_path`: lwt's, and those of its file."""
    _, weights = small.write(tmp_path)
    return weights, safetensors.numpy.load_file(tmp_path / "model.safetensors")


def same(found, weights, **tolerance):
    assert found.keys() == weights.keys()
    for name, w in weights.items():
        np.testing.assert_allclose(found[name], w, err_msg=name, **tolerance)


def test_half_precision_old_names_constants_and_other_heads(given, tmp_path, caplog):
    weights, arrays = given
    arrays = {f"bert.{name}": array.astype(np.float16) for name, array in arrays.items()}
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        arrays = {name.replace(f"LayerNorm.{new}", f"LayerNorm.{old}"): array for name, array in arrays.items()}
    arrays["bert.embeddings.position_ids"] = np.arange(32)[None]
    arrays["cls.predictions.bias"] = np.zeros(7, np.float32)
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors")
    caplog.set_level("INFO")
    section, found = model_folder.read(tmp_path)
    same(found, weights, rtol=1e-3, atol=1e-3)
    assert (section["head"], section["pooler"]) == ("none", True)
    assert "1 weights of other heads are left out: cls.predictions.bias" in caplog.text


def test_the_head_of_another_task_is_left_out(tmp_path, caplog):
    _, weights = small.write(tmp_path, "roberta", head="classify", labels=("a", "b"))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["RobertaForTokenClassification"]}))
    caplog.set_level("INFO")
    section, found = model_folder.read(tmp_path)
    assert {*weights} - {*found} == {f"{m}/{k}" for m in ("pooler", "head/classifier") for k in ("kernel", "bias")}
    assert not section["pooler"] and "not one of a text classifier and is left out: " in caplog.text
