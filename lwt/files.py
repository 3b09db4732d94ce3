"""Files and folders that appear whole or not at all, and checksums of files."""

import contextlib
import hashlib
import json
import os
import pathlib
import secrets
import shutil
import tempfile


@contextlib.contextmanager
def replacing(path):
    """Yields a temporary path beside `path`; what is written there takes the place of `path` when the block ends.

    A reader sees the old file or the new one, never a part of either. When the block fails, the old file stays and the
    temporary one is removed. Missing folders are made.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(path):
    """Yields a new, empty folder beside `path`, which takes the place of `path` when the block ends.

    See `replacing`.
    """
    new, old = _temporary(path), _temporary(path)
    new.mkdir()
    try:
        yield new
        with contextlib.suppress(FileNotFoundError):
            pathlib.Path(path).rename(old)
        new.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write_bytes(path, data):
    """Writes `data` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path, text):
    """Writes `text` to `path` as UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path, value, *, indent=2):
    """Writes `value` to `path` as JSON with a final newline, whole or not at all.

    Raises:
        ValueError: a number in `value` is not finite, which JSON cannot hold.
    """
    write_text(path, json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n")


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


def _temporary(path):
    """A path beside `path` that no other process, and no other machine, uses; makes the folders above it."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{secrets.token_hex(8)}.tmp")
