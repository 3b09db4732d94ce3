"""Folders of ``<split>.jsonl``, ``.csv``, ``.tsv``, ``.txt`` or ``.parquet``, all but the last also as ``.gz``; of
images (`lwt.data.images.folders`); or of a radar's recording (`lwt.data.radar.parrad`).

A name is a folder in ``$LWT_DATA``, or else a path of a folder or file. The first line of a ``.csv`` or ``.tsv`` names
the fields, which hold text; only a ``.csv`` has quotes. Every line of a ``.txt`` is a record with the fields ``text``
and ``document``; a blank line starts a new document. A file ``labels.txt`` names the classes of the field ``label``,
one per line. A malformed record is left out, counted, and reported with file and line.
"""

import collections.abc
import csv
import dataclasses
import gzip
import json
import logging
import os
import pathlib
import zlib

from lwt import errors, files
from lwt.data import sources
from lwt.data.images import folders as image_folders
from lwt.data.radar import parrad

LOG = logging.getLogger(__name__)
RECORDS = (".jsonl", ".csv", ".tsv", ".parquet")
FORMATS = (*RECORDS, ".txt")
LABELS = "labels.txt"
SHOWN = 3  # malformed records quoted in an error or a warning
KEPT = 1000  # messages kept, since a file of another format is all malformed


@dataclasses.dataclass(frozen=True)
class Table(collections.abc.Sequence):
    """Records as columns, which take half the memory of dicts."""

    columns: dict

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index):
        return {field: column[index] for field, column in self.columns.items()}


class Malformed(ValueError):
    """Why a record cannot be used."""


def read(name, split, *, fields, max_malformed):
    """Loads one split of a folder; see `lwt.data.sources.load`."""
    if parrad.is_recording(_folder(name)):
        return parrad.load(_folder(name), name, split=split, fields=fields)
    path = _find(name, split)
    if _of_images(path):
        return _images(name, split, path, fields)
    readers = {".jsonl": _jsonl, ".csv": _csv, ".tsv": _csv, ".txt": _txt, ".parquet": _parquet}
    reader = readers[_format(path)]
    columns, messages, bad, total = {}, [], 0, 0
    for line, span, record in reader(path):  # span: the number of lines that the record takes, all of which count
        total += span
        try:
            if isinstance(record, Malformed):
                raise record
            _check(record, columns, fields)
        except Malformed as error:
            bad += span
            if len(messages) < KEPT:
                messages.append(f"{path}:{line}: {error}")
            continue
        if not columns:
            columns = {field: [] for field in dict.fromkeys((*(fields or ()), *record))}
        for field in [f for f in columns if f not in record]:  # not asked for, and not in every record
            del columns[field]
        for field, column in columns.items():
            column.append(record[field])
    if not total:
        raise errors.DataError(f"{path} is empty: split {split!r} of folder:{name} has no records")
    quoted = "; ".join(messages[:SHOWN])
    if not columns or bad > max_malformed * total:
        raise errors.DataError(
            f"{path}: {bad} of {total} records are malformed ({bad / total:.1%}, allowed {max_malformed:.1%}): {quoted}"
        )
    if bad:
        LOG.warning("%s: %d of %d records are malformed and left out: %s", path, bad, total, quoted)
    return sources.Source(
        name=f"folder:{name}@{split}",
        records=Table(columns),
        fields=tuple(columns),
        fingerprint=sources.digest(files.sha256(path), fields or (), *columns),
        malformed=tuple(messages),
        classes=classes(path.parent / LABELS) if "label" in columns else (),
    )


def splits(name):
    """The splits of a folder that hold records; running text must be named."""
    folder = _folder(name)
    if folder.is_file():
        return ["train"]
    if parrad.is_recording(folder):
        return parrad.splits()
    return [split for split, path in _files(folder) if _format(path) in RECORDS or _of_images(path)]


def _images(name, split, path, fields):
    """A split of images, which are decoded when they are read."""
    records, fingerprint = image_folders.records(path)
    there = ("image", "label") if isinstance(records, image_folders.ImageArrays) else ("image", "label", "file")
    sources.need_fields(f"folder:{name}", fields, there=there)
    return sources.Source(
        name=f"folder:{name}@{split}",
        records=records,
        fields=there,
        fingerprint=fingerprint,
        classes=classes((path if path == _folder(name) and path.is_dir() else path.parent) / LABELS),
    )


def _of_images(path):
    return path.is_dir() or bool(image_folders.archive(path))


def _check(record, columns, fields):
    """Raises Malformed if a record lacks a field, or holds an empty text, or another kind of value than the first."""
    for field in (columns or record) if fields is None else fields:
        if field not in record:
            raise Malformed(f"no field {field!r}, only {', '.join(map(repr, record)) or 'nothing'}")
        value = record[field]
        if value is None:
            raise Malformed(f"field {field!r} is null")
        if columns and isinstance(value, str) != isinstance(columns[field][0], str):
            wanted = "text" if isinstance(columns[field][0], str) else type(columns[field][0]).__name__
            raise Malformed(f"field {field!r} is {value!r:.40}, and not {wanted} as in the first record")
        if isinstance(value, str):
            if not value.strip():
                raise Malformed(f"field {field!r} is empty")
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Malformed(f"field {field!r} holds half a surrogate pair") from None


def _jsonl(path):
    # By the lines of the file: a JSON string may hold U+0085 or U+2028, which str.splitlines would cut at.
    for number, line in _lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            if not text.strip():
                continue
            record = json.loads(text)
            if not isinstance(record, dict) or not record:
                record = Malformed(f"expected a JSON object with fields, found {text.strip()!r:.40}")
        except UnicodeDecodeError as error:
            record = Malformed(f"bad UTF-8 at byte {error.start}")
        except (ValueError, RecursionError) as error:
            record = Malformed(f"bad JSON: {error}")
        yield number, 1, record


def _txt(path):
    document = None
    for number, line in _lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            yield number, 1, Malformed(f"bad UTF-8 at byte {error.start}")
            continue
        if not text:
            document = None
            continue
        document = document or f"{path}:{number}"
        yield number, 1, {"text": text, "document": document}


def _csv(path):
    undecodable = []

    def decoded():
        for number, line in _lines(path):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                undecodable.append(number)
                yield line.decode("utf-8", "replace")

    tabs = _format(path) == ".tsv"
    form = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"delimiter": ",", "strict": True}
    rows = csv.reader(decoded(), **form)
    header, last = None, 0
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            cells = Malformed(str(error))
        first, last = last + 1, rows.line_num
        if undecodable:
            cells = Malformed(f"bad UTF-8 on line {undecodable[0]}")
            undecodable.clear()
        if header is None:
            if isinstance(cells, Malformed) or len(set(cells)) != len(cells):
                raise errors.DataError(f"{path}:{first}: the first line should name the fields, each once: {cells}")
            header = cells
        elif isinstance(cells, Malformed):
            yield first, last - first + 1, cells
        elif len(cells) != len(header) and cells:
            message = f"{len(cells)} cells instead of {len(header)} ({', '.join(header)})"
            yield first, last - first + 1, Malformed(message)
        elif cells:
            yield first, 1, dict(zip(header, cells, strict=True))


def _lines(path):
    """``(number from 1, bytes)`` of every line of a file, gzipped or not."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise errors.DataError(f"{path} is damaged after line {number} ({error}); get the file again") from error


def _parquet(path):
    import pyarrow  # imported here because it is slow
    import pyarrow.parquet

    row = 0
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
            for record in batch.to_pylist():
                row += 1
                yield row, 1, record
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise errors.DataError(f"{path} is damaged after row {row} ({error}); get the file again") from error


def _format(path):
    return pathlib.Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _find(name, split):
    folder = _folder(name)
    if folder.is_file():
        return folder
    found = [path for there, path in _files(folder) if there == split]
    if len(found) > 1:
        raise errors.DataError(f"{folder} holds split {split!r} more than once: {', '.join(p.name for p in found)}")
    if not found:
        there = [split for split, _ in _files(folder)]
        raise errors.DataError(f"{folder} has no split {split!r}; {errors.suggest(split, there)}")
    return found[0]


def _files(folder):
    """``[(split, path)]`` of the files of a known format, or else of images."""
    paths = (p for p in sorted(folder.iterdir()) if _format(p) in FORMATS and p.name != LABELS)
    found = [(p.name[: p.name.rindex(_format(p))], p) for p in paths if p.suffixes[-2:] != [".parquet", ".gz"]]
    return found or image_folders.splits(folder)


def _folder(name):
    """The folder or file of that name."""
    root = os.environ.get("LWT_DATA")
    places = ([pathlib.Path(root).expanduser() / name] if root else []) + [pathlib.Path(name).expanduser()]
    for place in places:
        if place.is_dir() or (place.is_file() and _format(place) in FORMATS) or image_folders.archive(place):
            return place
    if root and not pathlib.Path(root).is_dir():
        raise errors.DataError(f"folder:{name}: LWT_DATA={root} is not a folder")
    there = [p.name for p in pathlib.Path(root).iterdir() if p.is_dir()] if root else []
    hint = f"in LWT_DATA={root}: {errors.suggest(name, there)}" if root else "LWT_DATA (a folder of data) is not set"
    raise errors.DataError(f"folder:{name}: no folder {' or '.join(map(str, places))}; {hint}")


def classes(path):
    """The names of the classes, one per line of a ``labels.txt``; () if there is no such file."""
    if not path.is_file():
        return ()
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise errors.DataError(f"{path}: bad UTF-8 at byte {error.start}") from error
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice or len(names) < 2:
        what = f"{twice[0]!r} is there twice" if twice else f"{len(names)} names"
        raise errors.DataError(f"{path}: {what}; it should name every class once, one per line, at least two")
    return names
