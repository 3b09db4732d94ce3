"""Files and folders are replaced whole or not at all; checksums are those of the standard library."""

import hashlib
import json

import pytest

from lwt import files


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "new" / "a.json"
    files.write_json(path, {"ä": 1})
    files.write_json(path, {"ä": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"ä": 2}
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.replacing(path) as temporary:
        temporary.write_text("half of the ne")
        raise RuntimeError
    with pytest.raises(ValueError):
        files.write_json(path, float("nan"))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_name_of_the_longest_length_can_be_written(tmp_path):
    files.write_bytes(tmp_path / ("a" * 255), b"x")
    assert (tmp_path / ("a" * 255)).read_bytes() == b"x"


def test_sha256_of_bytes_and_of_a_file(tmp_path):
    (tmp_path / "a").write_bytes(b"some bytes")
    assert files.sha256(b"some bytes") == files.sha256(tmp_path / "a") == hashlib.sha256(b"some bytes").hexdigest()


def test_a_folder_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "new" / "folder"
    for name in ("a", "b"):
        with files.replacing_folder(path) as folder:
            assert not any(folder.iterdir())
            (folder / name).write_text(name)
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in path.parent.iterdir()] == ["folder"]
    assert path.stat().st_mode == path.parent.stat().st_mode


def test_a_failed_write_leaves_the_old_folder(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old/a").write_text("a")
    for name in ("old", "none"):
        with pytest.raises(RuntimeError), files.replacing_folder(tmp_path / name) as folder:
            (folder / "half").write_text("half")
            raise RuntimeError
    assert [p.relative_to(tmp_path).as_posix() for p in sorted(tmp_path.rglob("*"))] == ["old", "old/a"]
