"""Arrays of one file or of several; pickled and quantized ones are refused."""

import json

import numpy as np
import pytest
import safetensors.numpy

from lwt import errors
from lwt.huggingface import reading
from tests.huggingface import small


@pytest.fixture
def arrays(tmp_path):
    """The arrays of the folder `tmp_path`."""
    small.write(tmp_path)
    return safetensors.numpy.load_file(tmp_path / "model.safetensors")


def test_shards(arrays, tmp_path):
    (tmp_path / "model.safetensors").unlink()
    shards = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(arrays)}
    for shard in {*shards.values()}:
        part = {name: array for name, array in arrays.items() if shards[name] == shard}
        safetensors.numpy.save_file(part, tmp_path / shard)
    index = {"metadata": {}, "weight_map": shards}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    found = reading.weights(tmp_path)
    assert found.keys() == arrays.keys() and all((found[name] == array).all() for name, array in arrays.items())
    index["weight_map"]["none"] = shard
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(errors.CheckpointError, match=f"{shard} lacks none, which"):
        reading.weights(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "../x"}}))
    with pytest.raises(errors.CheckpointError, match="names '../x', which is not a file of its folder"):
        reading.weights(tmp_path)


def test_pickled_and_quantized_files_are_refused(arrays, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    reading.weights(tmp_path)  # the other file is there
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(errors.CheckpointError, match=r"pytorch_model.bin and no model.safetensors, .*save_pretrained"):
        reading.weights(tmp_path)
    arrays["encoder.layer.0.output.dense.weight"] = np.ones((16, 24), np.int8)
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors")
    with pytest.raises(errors.CheckpointError, match="encoder.layer.0.output.dense.weight is of type int8"):
        reading.weights(tmp_path)
