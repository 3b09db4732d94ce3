"""Exported files replace older exports and nothing else."""

import numpy as np
import pytest
import safetensors.numpy

from lwt import errors
from lwt.export import folders

CONTENTS = {
    "safetensors": safetensors.numpy.save({"a": np.zeros(3)}),
    "tflite": b"\x1c\0\0\0TFL3\0",
    "onnx": b"\x08\x09",
}


@pytest.mark.parametrize("kind", folders.MAGIC)
def test_only_older_exports_are_replaced(kind, tmp_path):
    path = tmp_path / "file"
    for content in (None, b"", CONTENTS[kind]):
        if content is not None:
            path.write_bytes(content)
        with folders.new_file(path, kind=kind):
            path.write_bytes(b"new")
        assert path.read_bytes() == b"new"
    for content in (b"{}", b"a text\n", *(other for name, other in CONTENTS.items() if name != kind)):
        path.write_bytes(content)
        with pytest.raises(errors.ConfigError, match="file already holds something else; give another file"):
            with folders.new_file(path, kind=kind):
                path.write_bytes(b"new")
        assert path.read_bytes() == content


def test_a_file_of_a_bundle_is_not_replaced(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(CONTENTS["safetensors"])
    (tmp_path / "bundle.json").write_text("{}")
    with pytest.raises(errors.ConfigError, match="already holds something else"):
        with folders.new_file(path, kind="safetensors"):
            path.write_bytes(b"new")
    assert path.read_bytes() == CONTENTS["safetensors"]


@pytest.mark.parametrize("content", [b"{}", b"[", b"7", b"\xff"])
def test_a_folder_with_a_file_of_the_same_name_is_not_replaced(tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.json").write_bytes(content)
    with pytest.raises(errors.ConfigError, match="already holds something; give another folder"):
        with folders.new(tmp_path / "out", marker="report.json", key="prefix"):
            pass
    (tmp_path / "out/report.json").write_bytes(b'{"prefix": "lwt"}')
    with folders.new(tmp_path / "out", marker="report.json", key="prefix") as folder:
        (folder / "new").write_text("")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new"]


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ConfigError, match="--out=.*below cannot be written .*; give another file"):
        with folders.new_file(tmp_path / "file/below", kind="onnx"):
            (tmp_path / "file/below").write_bytes(b"new")
