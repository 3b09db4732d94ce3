"""Files and folders that appear whole or not at all, and checksums that find damage to what lwt wrote.

A file that lwt reads again is written with ``checked=True``: its sha256 goes into the hidden file ``.NAME.sha256``
beside it, and `read` and `verify` compare it. A file without one, such as that of an older version, is taken as it is.
"""

import contextlib
import errno
import functools
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import tempfile
import time

from lwt import errors

TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")
STALE = 24 * 3600  # seconds without a change after which a temporary file is that of a killed process
UNWRITABLE = {  # of OSError.errno
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
}


@contextlib.contextmanager
def replacing(path, *, checked=False):
    """Yields a temporary path beside `path`; what is written there takes the place of `path` when the block ends.

    A reader sees the old file or the new one, never a part of either. When the block fails, the old file stays and the
    temporary one is removed. Missing folders are made.
    """
    with _one_line(path):
        temporary = _temporary(path)
        try:
            yield temporary
            with open(temporary, "r+b") as file:  # Windows flushes only what can be written
                os.fsync(file.fileno())  # or a power cut may leave the new name with an empty file
            checked = checked or bool(_known(path))  # no write leaves the checksum of what was there before
            with _checksum_of(path, temporary) if checked else contextlib.nullcontext():
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path):
    """Yields a new, empty folder beside `path`, which replaces `path` when the block ends; see `replacing`."""
    with _one_line(path):
        new, old = _temporary(path), _temporary(path)
        new.mkdir()
        try:
            yield new
            try:
                with contextlib.suppress(FileNotFoundError):
                    pathlib.Path(path).rename(old)
                new.rename(path)
            except BaseException:
                if old.exists() and not os.path.exists(path):
                    old.rename(path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def write_bytes(path, data, *, checked=False):
    """Writes `data` to `path`, whole or not at all."""
    with replacing(path, checked=checked) as temporary:
        temporary.write_bytes(data)


def write_text(path, text, *, checked=False):
    """Writes `text` to `path` as UTF-8, whole or not at all."""
    write_bytes(path, text.encode(), checked=checked)


def write_json(path, value, *, indent=2, checked=False):
    """Writes `value` to `path` as JSON with a final newline, whole or not at all.

    Raises:
        ValueError: a number in `value` is not finite, which JSON cannot hold.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text, checked=checked)


def copy(source, path):
    """Copies a file and its checksum, whole or not at all; the source is verified."""
    write_bytes(path, read(source), checked=True)


def remove(path):
    """Removes a file, if it is there, and its checksum."""
    pathlib.Path(path).unlink(missing_ok=True)
    _checksum_path(path).unlink(missing_ok=True)


def read(path):
    """The bytes of a file, after its checksum was compared.

    Raises:
        OSError: the file cannot be read.
        lwt.errors.DamageError: it has another checksum than when it was written.
    """
    return _compared(path, pathlib.Path(path).read_bytes)


def read_json(path, *, kind=dict):
    """The object (a dict) of a JSON file, or with `kind` its list, after its checksum was compared.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON, holds something else, or is damaged (see `read`).
    """
    try:
        value = json.loads(read(path))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, kind):
        wanted = "an object, in braces" if kind is dict else "a list, in brackets"
        raise ValueError(f"it holds {value!r:.40} instead of {wanted}")
    return value


def load_json(path, *, kind=dict):
    """What `read_json` returns; raises `lwt.errors.CheckpointError` if the file cannot be read or is damaged."""
    try:
        return read_json(path, kind=kind)
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error


def verify(path):
    """Compares the checksum of a file that is not read into memory; raises what `read` raises."""
    if _known(path):
        _compared(path, lambda: path)


def cache_folder():
    """The user's folder of what can be made again: ``$LWT_CACHE``, or ``~/.cache/lwt``."""
    return pathlib.Path(os.environ.get("LWT_CACHE") or "~/.cache/lwt").expanduser()


def first_writable(*folders):
    """The first of `folders` that can be written; it is made if it is missing.

    Raises:
        OSError: none of them can be written.
    """
    for folder in map(pathlib.Path, folders):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            failed = error
    raise failed


def sha256(content):
    """The sha256, in hexadecimal, of bytes or of the file at a path."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with open(content, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compared(path, content):
    """What ``content()`` returns, bytes or a path, if its checksum is the one beside `path`."""
    for _ in range(2):  # another process may replace the file between the two reads
        found, known = content(), _known(path)
        if not known or sha256(found) in known:
            return found
    raise errors.DamageError(
        f"its checksum differs from that in {_checksum_path(path).name}; remove that file if you changed "
        f"{pathlib.Path(path).name} yourself"
    )


@contextlib.contextmanager
def _checksum_of(path, new):
    """Stores the checksum of the file `new`, which replaces `path` inside the block.

    A kill at any moment, or another process that writes the same file, leaves a file that its checksum fits.
    """
    checksum, digest, file = _checksum_path(path), sha256(new), os.stat(new).st_ino
    before = _known(path) or ([sha256(path)] if os.path.exists(path) else [])
    write_text(checksum, "\n".join([digest, *before]) + "\n")
    yield
    write_text(checksum, digest + "\n")
    while (there := os.stat(path).st_ino) != file:  # that of another process
        file = there
        write_text(checksum, sha256(path) + "\n")


def _known(path):
    """The checksums that the file may have; an empty list if none was stored."""
    try:
        return _checksum_path(path).read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return []


def _checksum_path(path):
    path = pathlib.Path(path)
    name = f".{path.name}.sha256"
    return path.with_name(name if len(name.encode()) < 256 else f".{sha256(path.name.encode())}.sha256")


@contextlib.contextmanager
def _one_line(path):
    """Turns the failure to write `path` into an error of one line."""
    try:
        yield
    except OSError as error:
        names = [os.path.abspath(name) for name in (error.filename or path, path)]
        elsewhere = os.path.dirname(names[1]) not in names[0] and names[0] not in names[1]  # a file that is read
        if error.errno not in UNWRITABLE or elsewhere:
            raise
        raise errors.WriteError(error.errno, error.strerror, str(path)) from error


def _temporary(path):
    """A path beside `path` that no other process, and no other machine, uses; makes the folders above it."""
    path = pathlib.Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():  # a device such as /dev/null must not be replaced
        raise FileExistsError(errno.EEXIST, "Not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path.parent)
    return path.with_name(f".{secrets.token_hex(8)}.tmp")


@functools.cache
def _remove_stale(folder):
    """Removes what killed processes left in a folder, once per process."""
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            if TEMPORARY.fullmatch(path.name) and path.stat().st_mtime < time.time() - STALE:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
