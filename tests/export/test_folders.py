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
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"new", folders.LISTED}


def test_files_that_no_export_wrote_are_not_removed(tmp_path):
    def write():
        with folders.new(tmp_path / "out", marker="report.json", key="prefix") as folder:
            (folder / "src").mkdir()
            (folder / "src/a.c").write_text("")
            (folder / "report.json").write_text('{"prefix": "lwt"}')

    write()
    for name in ("classify", "firmware.elf", "build/CMakeCache.txt"):  # what its Makefile builds
        path = tmp_path / "out" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    write()
    (tmp_path / "out/src/main.c").write_text("mine")
    with pytest.raises(
        errors.ConfigError, match="also holds src/main.c, which no export wrote; move it, or give another"
    ):
        write()
    assert (tmp_path / "out/src/main.c").read_text() == "mine"


def test_the_present_folder_is_no_place_for_an_export():
    with pytest.raises(errors.ConfigError, match="--out=. should name a new folder"):
        with folders.new("."):
            pass


def test_an_error_of_another_file_is_not_blamed_on_out(tmp_path):
    with pytest.raises(errors.ConfigError, match="^/nowhere/tokenizer.model: No such file"):
        with folders.new(tmp_path / "out"):
            open("/nowhere/tokenizer.model")


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.ConfigError, match="--out=.*below cannot be written .*; give another file"):
        with folders.new_file(tmp_path / "file/below", kind="onnx"):
            (tmp_path / "file/below").write_bytes(b"new")
