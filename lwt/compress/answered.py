"""A training set whose answers a teacher gives: written in parts, so that an interrupted one is resumed.

Beside it, ``origin.json`` has what it is made of, the seconds that the answers took, and the machines.
"""

import gzip
import json
import logging
import pathlib
import shutil
import time
import zlib

from lwt import errors, files
from lwt.machine import hardware

LOG = logging.getLogger(__name__)
SETTINGS, PARTS, FILE = "origin.json", "parts", "train.jsonl.gz"
PART = 1024  # records that are answered and saved at a time


def write(folder, settings, *, count, answer):
    """Writes ``train.jsonl.gz`` unless it is there; returns its path and the number of its records.

    Args:
        folder: of the set.
        settings: what the set is made of, for ``origin.json``.
        count: the number of records to answer.
        answer: ``(start, stop) -> records``, the answered ones as dicts; it may leave some out.

    Raises:
        lwt.errors.ConfigError, lwt.errors.DataError: see `finished`.
    """
    if made := finished(folder, settings):
        return made
    path, parts = pathlib.Path(folder, FILE), pathlib.Path(folder, PARTS)
    for start in range(0, count, PART):
        part = parts / f"{start:08d}"
        if not _is_whole(part):
            begin = time.perf_counter()
            records = answer(start, min(start + PART, count))
            lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            files.write_text(part, "".join(lines), checked=True)
            _add_effort(folder, time.perf_counter() - begin)
            LOG.info("answered %d of %d records", min(start + PART, count), count)
    with files.replacing(path, checked=True) as temporary, gzip.open(temporary, "wb") as file:
        for part in sorted(parts.glob("[0-9]*")):
            file.write(files.read(part))
    shutil.rmtree(parts, ignore_errors=True)
    return finished(folder, settings)


def finished(folder, settings):
    """The path of ``train.jsonl.gz`` and the number of its records; None if it is not there yet.

    Raises:
        lwt.errors.ConfigError: `folder` was begun with other settings.
        lwt.errors.DataError: a file of `folder` is damaged.
    """
    _begin(folder, settings)
    path = pathlib.Path(folder, FILE)
    if not path.exists():
        return None
    try:
        files.verify(path)
        with gzip.open(path, "rb") as file:
            return path, sum(1 for _ in file)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise errors.DataError(f"{path} is damaged ({error}); remove it to make the set again") from error


def _begin(folder, settings):
    """Writes what the set is made of; refuses a folder begun with other settings."""
    path = pathlib.Path(folder, SETTINGS)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        files.write_json(path, settings, checked=True)
    try:
        begun = files.read_json(path)
    except (OSError, ValueError) as error:
        raise errors.DataError(f"{path} is damaged ({error}); give another --out") from error
    for key, value in settings.items():
        if begun.get(key) != value:
            raise errors.ConfigError(
                f"{folder} was begun with {key}={begun.get(key)!r:.60}, not {value!r:.60}; give another --out"
            )


def _add_effort(folder, seconds):
    """Adds the seconds of a part, and this machine, to ``origin.json``."""
    path = pathlib.Path(folder, SETTINGS)
    known = files.read_json(path)
    machines = dict.fromkeys([*known.get("hardware", ()), hardware.describe()])
    effort = {"seconds": round(known.get("seconds", 0.0) + seconds, 3), "hardware": [*machines]}
    files.write_json(path, known | effort, checked=True)


def _is_whole(part):
    """Whether a part was written and is as it was written."""
    try:
        files.verify(part)
    except FileNotFoundError:
        return False
    except ValueError as error:
        LOG.warning("%s is damaged (%s): its records are answered again", part, error)
        return False
    return part.exists()
