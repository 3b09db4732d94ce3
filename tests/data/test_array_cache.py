"""Cached arrays are mapped, made again if damaged, and kept elsewhere if the first folder cannot be written."""

import numpy as np
import pytest

from lwt import errors
from lwt.data import array_cache


@pytest.fixture
def calls():
    return []


@pytest.fixture
def make(calls):
    def make(append):
        calls.append(1)
        append("empty", np.zeros(0, np.int32))
        for start in range(3):
            append("values", np.arange(start, start + 4, dtype=np.uint16))
            append("one", np.array([7][start:]))

    return make


def check(found):
    assert {name: (array.tolist(), array.dtype.name) for name, array in found.items()} == {
        "empty": ([], "int32"),
        "values": ([0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5], "uint16"),
        "one": ([7], "int64"),
    }


def test_arrays_are_made_once_and_mapped(make, calls, tmp_path):
    for _ in range(2):
        found = array_cache.cached("key", (tmp_path,), make=make)
        check(found)
        assert isinstance(found["values"].base, np.memmap)
    array_cache.cached("other", (tmp_path,), make=make)
    assert len(calls) == 2 and {path.name for path in tmp_path.iterdir()} == {"key", "other"}


def test_every_damage_is_mended(make, calls, tmp_path, caplog):
    mapped = array_cache.cached("key", (tmp_path,), make=make)
    for path in sorted((tmp_path / "key").iterdir()):
        content = path.read_bytes()
        damages = [content[:-1], content + b"x", b"", None]
        damages += [
            content[: i // 8] + bytes([content[i // 8] ^ 1 << i % 8]) + content[i // 8 + 1 :]
            for i in range(0, 8 * len(content), 5 if len(content) < 70 else 61)
        ]
        for damage in damages:
            if damage == content:
                continue
            path.unlink() if damage is None else path.write_bytes(damage)
            check(array_cache.cached("key", (tmp_path,), make=make))
            assert path.name.startswith(".") or path.read_bytes() == content  # a checksum may end without a line break
    check(mapped)  # what was mapped before stays
    assert len(calls) > 50 and "is damaged" in caplog.text


def test_another_folder_is_used_if_the_first_cannot_be_written(make, calls, tmp_path):
    own, cache = tmp_path / "own", tmp_path / "cache"
    own.write_text("a file in place of the folder")
    check(array_cache.cached("key", (own, cache), make=make))
    check(array_cache.cached("key", (own, cache), make=make))
    assert len(calls) == 1 and (cache / "key").is_dir()
    own.unlink()
    with pytest.raises(errors.DataError, match="file cannot be written .*; set LWT_CACHE to a folder"):
        (tmp_path / "file").touch()
        array_cache.cached("key", (tmp_path / "file",), make=make)


def test_what_fails_leaves_nothing(make, tmp_path):
    def fail(append):
        append("values", np.arange(3))
        raise errors.DataError("a bad record")

    with pytest.raises(errors.DataError, match="a bad record"):
        array_cache.cached("key", (tmp_path,), make=fail)
    assert not any(tmp_path.iterdir())
    check(array_cache.cached("key", (tmp_path,), make=make))
