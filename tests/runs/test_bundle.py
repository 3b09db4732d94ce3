"""The files of a bundle: checksums find damage, and weights come back as float32."""

import json
import os

import numpy as np
import pytest

from lwt import errors, files
from lwt.runs import bundle


@pytest.fixture
def folder(tmp_path):
    """A bundle of small files."""
    bundle.write_weights(tmp_path / bundle.WEIGHTS, {"w": np.float32([1, 2.5])}, precision="bfloat16")
    for name in ("config.json", "tokenizer.model", bundle.METRICS, bundle.CARD):
        (tmp_path / name).write_text(f"the file {name}")
    bundle.describe(tmp_path, precision="bfloat16", step=7, lwt="0.1.0")
    return tmp_path


def test_what_is_described_is_read(folder):
    assert bundle.is_bundle(folder) and not bundle.is_bundle(folder / "none")
    info = bundle.read_info(folder)
    assert (info["step"], info["precision"]) == (7, "bfloat16")
    assert set(info["files"]) == {"config.json", "model.safetensors", "metrics.json", "tokenizer.model"}
    weights = bundle.read_weights(folder)
    assert weights["w"].dtype == np.float32 and weights["w"].tolist() == [1, 2.5]
    (folder / bundle.CARD).write_text("completed by hand")
    bundle.read_info(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.model", "metrics.json"])
def test_a_damaged_or_missing_file_is_named(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(errors.CheckpointError, match=f"{name} is damaged: its checksum differs"):
        bundle.read_info(folder)
    path.unlink()
    with pytest.raises(errors.CheckpointError, match=f"{name} cannot be read: No such file"):
        bundle.read_info(folder)


def test_damage_of_the_description_is_named(folder):
    path = folder / bundle.INFO
    info = json.loads(path.read_text())
    for text, message in (
        ('{"kind": "box"', "bundle.json is damaged"),
        ('{"kind": "box"}', "bundle.json is damaged"),
        (json.dumps(info | {"step": 8}), "bundle.json is damaged: its checksum differs"),
    ):
        path.write_text(text)
        with pytest.raises(errors.CheckpointError, match=message):
            bundle.read_info(folder)
    files.write_json(path, info | {"kind": "box"}, checked=True)
    with pytest.raises(errors.CheckpointError, match="bundle.json is of kind 'box'"):
        bundle.read_info(folder)
    files.write_json(path, info | {"precision": "float64"}, checked=True)
    with pytest.raises(errors.CheckpointError, match="bundle.json: precision='float64'; did you mean 'float"):
        bundle.read_info(folder)


def test_weights_beyond_the_range_are_refused(tmp_path):
    with pytest.raises(errors.NotFinite, match="'w' is not finite in float16"):
        bundle.write_weights(tmp_path / "x", {"w": np.float32([1e6])}, precision="float16")


def test_damaged_weights_are_named(folder):
    (folder / bundle.WEIGHTS).write_bytes(b"short")
    with pytest.raises(errors.CheckpointError, match="model.safetensors is damaged"):
        bundle.read_weights(folder)


@pytest.mark.parametrize("name", ["/dev/zero", "../secret", "sub/a", "", ".", "..", "pipe", "eval"])
def test_the_list_names_plain_files_of_the_folder_only(folder, name):
    """A list from a stranger must not make the reader wait for a pipe, or read what lies elsewhere."""
    (folder / "eval").mkdir()
    os.mkfifo(folder / "pipe")
    path = folder / bundle.INFO
    info = files.read_json(path)
    files.write_json(path, info | {"files": info["files"] | {name: "0" * 64}}, checked=True)
    with pytest.raises(errors.CheckpointError, match="bundle.json lists .*, which is not a plain file of its folder"):
        bundle.read_info(folder)


@pytest.mark.parametrize("names", [(), ("config.json",), ("model.safetensors",), ("tokenizer.model",)])
def test_the_files_that_the_model_is_made_from_have_to_be_listed(folder, names):
    path = folder / bundle.INFO
    info = files.read_json(path)
    left = {name: digest for name, digest in info["files"].items() if names and name not in names}
    files.write_json(path, info | {"files": left}, checked=True)
    with pytest.raises(errors.CheckpointError, match="bundle.json does not list "):
        bundle.read_info(folder)


@pytest.mark.parametrize("value", [None, [], 3, {"a": 1}, [["a", "b", "c"]]])
def test_a_list_of_another_form_is_damage(folder, value):
    path = folder / bundle.INFO
    files.write_json(path, files.read_json(path) | {"files": value}, checked=True)
    with pytest.raises(errors.CheckpointError, match="bundle.json"):
        bundle.read_info(folder)
