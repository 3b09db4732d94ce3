"""Files and folders are replaced whole or not at all; checksums are those of the standard library."""

import contextlib
import errno
import hashlib
import json
import os
import pathlib

import pytest

from lwt import errors, files


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


def test_an_interrupt_between_the_renames_leaves_the_old_folder(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    (tmp_path / "old/a").write_text("a")
    rename = files.pathlib.Path.rename

    def interrupted(path, target):
        if files.pathlib.Path(target) == tmp_path / "old" and (path / "new").exists():
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(files.pathlib.Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), files.replacing_folder(tmp_path / "old") as folder:
        (folder / "new").write_text("new")
    assert [p.relative_to(tmp_path).as_posix() for p in sorted(tmp_path.rglob("*"))] == ["old", "old/a"]


def test_a_checked_file_is_read_and_damage_is_found(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"rank": 2}, checked=True)
    files.write_json(path, {"rank": 4}, checked=True)
    assert files.read_json(path) == {"rank": 4} and files.verify(path) is None
    assert [p.name for p in sorted(tmp_path.iterdir())] == [".a.json.sha256", "a.json"]
    path.write_text(path.read_text().replace("4", "5"))
    for call in (files.read, files.read_json, files.verify):
        with pytest.raises(ValueError, match="checksum differs from that in .a.json.sha256; remove that file if you"):
            call(path)
    with pytest.raises(ValueError):
        files.copy(path, tmp_path / "b.json")
    files.write_json(path, {"rank": 6})  # it keeps its checksum
    files.copy(path, tmp_path / "b.json")
    assert files.read_json(tmp_path / "b.json") == {"rank": 6} and (tmp_path / ".b.json.sha256").exists()
    files.remove(path)
    assert [p.name for p in sorted(tmp_path.iterdir())] == [".b.json.sha256", "b.json"]


def test_a_file_without_a_checksum_is_taken_as_it_is(tmp_path):
    (tmp_path / "a.json").write_text('{"rank": 2}')
    assert files.read_json(tmp_path / "a.json") == {"rank": 2}
    files.verify(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("[2]")
    with pytest.raises(ValueError, match="instead of an object"):
        files.read_json(tmp_path / "a.json")


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("moment", range(4))
def test_a_kill_at_any_moment_leaves_a_file_that_can_be_read(tmp_path, monkeypatch, moment, begun):
    """The renames of a write are those of the checksum, the file, the checksum; the process dies before one of them."""
    path, count, replace = tmp_path / "a", 0, pathlib.Path.replace
    files.write_bytes(path, b"old", checked=begun)

    def dying(*names):
        nonlocal count
        count += 1
        if count == moment + 1:
            raise KeyboardInterrupt
        return replace(*names)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", dying)
        with contextlib.suppress(KeyboardInterrupt):
            files.write_bytes(path, b"new", checked=True)
    assert files.read(path) == (b"old" if moment < 2 else b"new")
    files.write_bytes(path, b"next", checked=True)
    assert files.read(path) == b"next"


def test_two_writers_of_one_file_leave_one_that_can_be_read(tmp_path):
    """The second writes, whole, between any two steps of the first."""
    for moment in range(4):
        path, count, replace = tmp_path / str(moment), 0, pathlib.Path.replace

        def interrupted(*names, moment=moment, path=path, replace=replace):
            nonlocal count
            count += 1
            if count == moment + 1:
                files.write_bytes(path, b"second", checked=True)
            return replace(*names)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pathlib.Path, "replace", interrupted)
            files.write_bytes(path, b"first", checked=True)
        assert files.read(path) in (b"first", b"second")


def test_what_killed_processes_left_is_removed(tmp_path):
    old, recent, foreign = (tmp_path / f".{name}.tmp" for name in ("0" * 16, "1" * 16, "notes"))
    for path in (old, recent, foreign):
        path.write_text("half")
    for path in (old, foreign):
        os.utime(path, (1, 1))
    files.write_text(tmp_path / "a", "whole")
    assert not old.exists() and recent.exists() and foreign.exists()


def test_what_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(
        pathlib.Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space"))
    )
    with pytest.raises(errors.WriteError, match=f"^{tmp_path}/a cannot be written: No space$") as caught:
        files.write_text(tmp_path / "a", "text")
    assert isinstance(caught.value, errors.LwtError) and caught.value.strerror == "No space"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(errors.WriteError, match="File name too long"), files.replacing_folder(tmp_path / ("a" * 300)):
        pass


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for replace in (lambda: files.write_text(path, "text"), lambda: files.replacing_folder(path).__enter__()):
        with pytest.raises(errors.WriteError, match="Not a regular file"):
            replace()
    assert path.is_fifo() and os.listdir(tmp_path) == ["pipe"]
