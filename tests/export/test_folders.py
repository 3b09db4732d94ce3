"""Folders of exports appear whole; arrays and JSON come back, and damage is named."""

import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.export import folders


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with folders.new(tmp_path / "out") as new:
        (new / "a").write_text("a")
        assert not (tmp_path / "out").exists()
    assert (tmp_path / "out/a").read_text() == "a"
    with pytest.raises(errors.ConfigError, match="--out=.*out already holds something"), folders.new(tmp_path / "out"):
        pass
    with folders.new(tmp_path / "out", marker="a") as new:  # an older export
        (new / "b").write_text("b")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("file/out", "a" * 300):
        with pytest.raises(errors.ConfigError, match="--out=.* cannot be written"), folders.new(tmp_path / name):
            pass


def test_arrays_come_back_as_float32(tmp_path):
    path = tmp_path / "a.safetensors"
    folders.write_arrays(path, {"w": jnp.ones((2, 3), jnp.bfloat16)})
    found = folders.read_arrays(path)["w"]
    assert found.dtype == np.float32 and found.shape == (2, 3)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(errors.CheckpointError, match="a.safetensors is damaged"):
        folders.read_arrays(path)
    with pytest.raises(errors.CheckpointError, match="none cannot be read: No such file"):
        folders.read_arrays(tmp_path / "none")


@pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
def test_damaged_json_is_named(tmp_path, text):
    (tmp_path / "a.json").write_text(text, encoding="latin-1")
    with pytest.raises(errors.CheckpointError, match="a.json is damaged"):
        folders.read_json(tmp_path / "a.json")
    with pytest.raises(errors.CheckpointError, match="b.json cannot be read"):
        folders.read_json(tmp_path / "b.json")
