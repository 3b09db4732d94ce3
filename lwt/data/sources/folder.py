"""Folders of records (`lwt.data.formats`, `lwt.data.layout`), of images (`lwt.data.images.folders`), or of a radar's
recording (`lwt.data.radar.parrad`).

A name is a folder in ``$LWT_DATA``, or else a path of a folder or file. A file ``labels.txt`` names the classes of the
field ``label``, one per line. A malformed record is left out, counted, and reported with file and line; files that are
not read are named.
"""

import array
import bisect
import collections.abc
import dataclasses
import os
import pathlib

from lwt import errors, files
from lwt.data import formats, labels, layout, sources
from lwt.data.images import folders as image_folders
from lwt.data.radar import parrad

SHOWN = 3  # malformed records quoted in an error or a warning
KEPT = 1000  # messages kept, since a file of another format is all malformed


@dataclasses.dataclass(frozen=True)
class Table(collections.abc.Sequence):
    """Records as columns, which take half the memory of dicts."""

    columns: dict
    lines: array.array  # of each record, in its file
    starts: dict  # file -> its first record

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index):
        return {field: column[index] for field, column in self.columns.items()}

    def where(self, index):
        """File and line of a record."""
        path = [*self.starts][bisect.bisect_right([*self.starts.values()], index) - 1]
        return f"{path}:{self.lines[index]}"


def read(name, split, *, fields, max_malformed, max_megabytes=formats.MAX_MEGABYTES):
    """Loads one split of a folder; see `lwt.data.sources.load`."""
    folder = _folder(name)
    if parrad.is_recording(folder):
        return parrad.load(folder, name, split=split, fields=fields)
    part, notes = _find(folder, name, split)
    if _of_images(part.paths[0]):
        return _images(name, split, part, folder=folder, fields=fields, notes=notes, max_megabytes=max_megabytes)
    where = part.paths[0] if len(part.paths) == 1 else f"{part.paths[0].parent}: {part}"
    columns, lines, starts, messages, bad, total = None, array.array("q"), {}, [], 0, 0
    there = ()  # the fields of the first record
    for path, line, span, record in formats.read(part.paths, max_megabytes=max_megabytes):
        total += span  # all lines of a record count
        try:
            if isinstance(record, formats.Malformed):
                raise record
            there = there or tuple(record)
            _check(record, columns or {}, fields)
        except formats.Malformed as error:
            bad += span
            if len(messages) < KEPT:
                messages.append(f"{path}:{line}: {error}")
            continue
        if columns is None:
            columns = {field: [] for field in dict.fromkeys((*(fields or ()), *record))}
        for field in [f for f in columns if f not in record]:  # not asked for, and not in every record
            del columns[field]
        if not columns:
            raise errors.DataError(f"{path}:{line}: the record has no field that all earlier ones have")
        for field, column in columns.items():
            column.append(record[field])
        starts.setdefault(path, len(lines))
        lines.append(line)
    if not total:
        raise errors.DataError(f"{where} is empty: split {split!r} of folder:{name} has no records")
    if there and not columns:
        sources.need_fields(f"folder:{name}@{split}", fields, there=there)
    limit = () if max_megabytes == formats.MAX_MEGABYTES else (max_megabytes,)  # it decides what is left out
    quoted = "; ".join(messages[:SHOWN])
    message = f"{where}: {bad} of {total} records are malformed"
    if not columns or bad > max_malformed * total:
        raise errors.DataError(f"{message} ({bad / total:.1%}, allowed {max_malformed:.1%}): {quoted}")
    if bad:
        formats.tell(f"{message} and left out: {quoted}")
    return sources.Source(
        name=f"folder:{name}@{split}",
        records=Table(columns, lines, starts),
        fields=tuple(columns),
        fingerprint=sources.digest(*map(files.sha256, part.paths), fields or (), *columns, *limit),
        malformed=tuple(messages),
        classes=_classes(part, folder) if "label" in columns else (),
        notes=notes,
        origin=str(part),
    )


def splits(name):
    """The splits of a folder that hold records; running text must be named."""
    folder = _folder(name)
    if folder.is_file():
        return ["train"]
    if parrad.is_recording(folder):
        return parrad.splits()
    parts, _ = _parts(folder)
    return sorted(split for split, found in parts.items() if not all(formats.is_running_text(p.paths) for p in found))


def is_one_file(name):
    """Whether the name is that of a file, and not of a folder or nothing; a file of images may hold splits."""
    try:
        folder = _folder(name)
    except errors.DataError:  # what reads it says so
        return False
    return folder.is_file() and not image_folders.archive(folder)


def describe(name, split):
    """The files of a split; see `sources.describe`."""
    folder = _folder(name)
    return "" if parrad.is_recording(folder) else str(_find(folder, name, split)[0])


def _classes(part, folder):
    places = [part.paths[0].parent, folder]
    return next((names for place in places if (names := labels.read(place / layout.LABELS))), ())


def _images(name, split, part, *, folder, fields, notes, max_megabytes):
    """A split of images, which are decoded when they are read."""
    found, name = [], f"folder:{name}"
    for path in part.paths:
        records, fingerprint, there = image_folders.records(path, max_megabytes=max_megabytes)
        sources.need_fields(name, fields, there=there)
        found.append(sources.Source(f"{name}@{split}", records, there, fingerprint))
    path = part.paths[0] if part.paths[0] == folder and folder.is_dir() else part.paths[0].parent
    joined, more = sources.join(found), {"notes": notes, "origin": str(part)}
    return dataclasses.replace(joined, name=f"{name}@{split}", classes=labels.read(path / layout.LABELS), **more)


def _of_images(path):
    return path.is_dir() or bool(image_folders.archive(path))


def _check(record, columns, fields):
    """Raises Malformed if a record lacks a field, or holds an empty text, or another kind of value than the first."""
    for field in (columns or record) if fields is None else fields:
        if field not in record:
            raise formats.Malformed(f"no field {field!r}, only {', '.join(map(repr, record)) or 'nothing'}")
        value = record[field]
        if value is None or value != value:  # pandas writes NaN for a missing number
            raise formats.Malformed(f"field {field!r} is {'null' if value is None else 'not a number'}")
        if columns and isinstance(value, str) != isinstance(columns[field][0], str):
            wanted = "text" if isinstance(columns[field][0], str) else type(columns[field][0]).__name__
            raise formats.Malformed(f"field {field!r} is {value!r:.40}, and not {wanted} as in the first record")
        if isinstance(value, str):
            if not value.strip():
                raise formats.Malformed(f"field {field!r} is empty")
            try:
                value.encode()
            except UnicodeEncodeError:
                raise formats.Malformed(f"field {field!r} holds half a surrogate pair") from None


def _parts(folder):
    """``({split: [Part, ...]}, paths that are not read)`` of records and images."""
    parts, unread = layout.splits(folder)
    for split, images in image_folders.splits(folder).items():
        taken = {path for part in images for path in part.paths}
        inside = [part for part in parts.get(split, ()) if part.paths[0].parent in taken]  # train/metadata.csv
        parts[split] = [part for part in parts.get(split, ()) if part not in inside] + images
        unread += [file for part in inside for file in part.paths]
        unread = [path for path in unread if path not in taken and not (folder in taken and path.is_dir())]
    return parts, unread


def _find(folder, name, split):
    """``(Part of a split, notes)``; the notes name what is not read, if the split is the first of the folder."""
    if folder.is_file():
        return layout.Part((folder,)), ()
    parts, unread = _parts(folder)
    part = layout.choose(parts, split, folder=folder)
    hidden = ", ".join(path.name + "/" * path.is_dir() for path in unread[:8]) + ", ..." * (len(unread) > 8)
    if part is None:
        what = errors.suggest(split, parts) if parts else f"it holds no data that is read ({layout.READ})"
        inner = next((path.name for path in unread if path.is_dir() and any(layout.splits(path)[0])), "")
        raise errors.DataError(
            f"{folder} has no split {split!r}; {what}"
            + f"; not read: {hidden}" * bool(hidden)
            + f"; is it folder:{name}/{inner}?" * bool(inner)
        )
    first = next((word for word in layout.TRAIN if word in parts), min(parts))
    return part, (f"{folder}: not read: {hidden}",) if unread and layout.known(split) == first else ()


def _folder(name):
    """The folder or file of that name."""
    root = os.environ.get("LWT_DATA")
    places = ([pathlib.Path(root).expanduser() / name] if root else []) + [pathlib.Path(name).expanduser()]
    for place in places:
        if place.is_dir() or (place.is_file() and formats.of(place)) or image_folders.archive(place):
            return place
        if place.is_file():
            raise errors.DataError(f"folder:{name}: {place} is not of a format that is read: {layout.READ}")
    if root and not pathlib.Path(root).is_dir():
        raise errors.DataError(f"folder:{name}: LWT_DATA={root} is not a folder")
    there = [p.name for p in pathlib.Path(root).iterdir() if p.is_dir()] if root else []
    hint = f"in LWT_DATA={root}: {errors.suggest(name, there)}" if root else "LWT_DATA (a folder of data) is not set"
    raise errors.DataError(
        f"folder:{name}: no folder {' or '.join(map(str, places))}; {hint}; "
        "docs/datasets.md says how to make the data sets of the configs"
    )
