"""Reads a table of texts and labels: its columns, its rows, and the rows that cannot be used, with the reason."""

import collections
import dataclasses
import pathlib

from lwt import errors
from lwt import files as disk
from lwt.data import formats, labels, layout, text_fields

PARTS = ("train", "validation", "test")
TEXTS = ("text", "message", "sentence", "content", "body", "description", "review", "comment", "question", "utterance")
LABELS = ("label", "category", "class", "intent", "topic", "sentiment", "target", "department", "tag")
QUOTED = 3  # malformed rows in an error
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        part: of `PARTS`, or "" in a table that is not divided.
        path, number, line: its file, its number there (from 1, without the line of names), and its first line.
        fields: the columns of its text, ``{column: text}``.
        label: as `labels.text_of` writes it; "" if there is none.
        raw_label: as the table writes it.
    """

    part: str
    path: str
    number: int
    line: int
    fields: dict
    label: str = ""
    raw_label: str = ""

    @property
    def text(self):
        """The text; several columns are joined by spaces."""
        return " ".join(self.fields.values()).strip()


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A row that is not used.

    Attributes:
        row: the row; of a malformed one, its place.
        kind, reason: what is wrong, such as "no text", and the same in full.
        rows: how many rows of the table are lost: the lines of a malformed record, since a wrong quote joins rows.
    """

    row: Row
    kind: str
    reason: str
    rows: int = 1


@dataclasses.dataclass(frozen=True)
class Table:
    """The rows that have a text and a label, and those that do not.

    Attributes:
        files: ``{part: [path, ...]}``.
        text, label: the columns; ``a+b`` joins two.
        rows, left_out: lists of `Row` and `LeftOut`.
        notes: sentences on what was guessed.
    """

    files: dict
    text: str
    label: str
    rows: list
    left_out: list
    notes: tuple = ()


def find(path, *, validation="", test=""):
    """``{part: [path, ...]}``: the files of a table, one file or a folder of files train, validation and test.

    Args:
        path: the table, or its training part.
        validation, test: files of the other parts.

    Raises:
        lwt.errors.DataError: a file is missing, or of another format; a folder has no file of a training part.
    """
    place = pathlib.Path(path).expanduser()
    if place.is_dir():
        parts, _ = layout.splits(place)
        found = {}
        for part, words in zip(PARTS, (layout.TRAIN, layout.VALIDATION, layout.TEST), strict=True):
            there = [word for word in words if word in parts]
            if len(there) > 1:
                raise errors.DataError(f"{path} has several parts {part}: {', '.join(there)}; it should have one")
            for word in there:
                found[part] = list(layout.choose(parts, word, folder=place).paths)
        if "train" not in found:
            raise errors.DataError(f"{path} is a folder without a file of a part train; {layout.READ}")
    else:
        found = {"train": [_file(place)]}
    for part, given in (("validation", validation), ("test", test)):
        if given and part in found:
            raise errors.ConfigError(f"--{part}={given}: {path} has a part {part} of its own; omit the flag")
        if given:
            found[part] = [_file(pathlib.Path(given).expanduser())]
    return {"": found["train"]} if len(found) == 1 else found


def _file(path):
    if not path.is_file():
        there = [p.name for p in path.parent.glob("*") if formats.of(p)] if path.parent.is_dir() else []
        raise errors.DataError(f"the table {path} is not there; {errors.suggest(path.name, there)}")
    if path.suffix.lower() in SPREADSHEETS:
        raise errors.DataError(f"{path}: a spreadsheet is not read; save it as CSV in UTF-8")
    if formats.of(path) in ("", ".txt"):
        raise errors.DataError(f"{path}: a table must be a .csv, .tsv, .jsonl, .json (also .gz) or .parquet")
    return path


def read(files, *, text="", label="", max_malformed=0.1):
    """Reads a `Table`.

    Args:
        files: as `find` returns them.
        text, label: the columns; "" takes the one column of a usual name, or the only other one.
        max_malformed: the share of malformed rows above which the table is refused.

    Raises:
        lwt.errors.DataError: a column is missing or cannot be guessed; the table is empty, damaged, or too many of its
            rows are malformed.
    """
    records, columns, left_out, malformed = [], {}, [], 0
    for part, paths in files.items():
        numbers = collections.Counter()
        for path, line, span, record in formats.read(tuple(paths)):
            place = {"part": part, "path": str(path), "number": numbers[path] + 1, "line": line}
            if isinstance(record, formats.Malformed):
                lines = f"lines {line} to {line + span - 1} are read as one row: " if span > 1 else ""
                left_out.append(LeftOut(Row(fields={}, **place), "malformed", f"{lines}{record}", rows=span))
                malformed += span
                numbers[path] += span
            else:
                numbers[path] += 1
                columns.update(dict.fromkeys(record))
                records.append((place, record))
    where = ", ".join(str(path) for paths in files.values() for path in paths)
    total = len(records) + malformed
    if not total:
        raise errors.DataError(f"{where} has no rows")
    if malformed > max_malformed * total:
        quoted = "; ".join(f"{wrong.row.path}:{wrong.row.line}: {wrong.reason}" for wrong in left_out[:QUOTED])
        raise errors.DataError(
            f"{where}: {malformed} of {total} rows are malformed ({malformed / total:.0%}, --max_malformed allows "
            f"{max_malformed:.0%}): {quoted}"
        )
    text, label, notes = _columns(where, list(columns), text=text, label=label)
    rows = []
    for place, record in records:
        row, kind, reason = _row(place, record, text=text, label=label)
        if kind:
            left_out.append(LeftOut(row, kind, reason))
        else:
            rows.append(row)
    rows, more = _named(rows, labels.read(_names_file(files)))
    return Table(files, text, label, rows, left_out, notes + more)


def contents(files):
    """Fingerprints of the files of a table, ``{part: [fingerprint, ...]}``, and of the file that names its classes."""
    found = {part: [disk.sha256(path) for path in paths] for part, paths in files.items()}
    names = _names_file(files)
    return found | ({layout.LABELS: disk.sha256(names)} if names.is_file() else {})


def _names_file(files):
    return next(iter(files.values()))[0].parent / layout.LABELS


def counts(left_out):
    """How many rows of the table are left out, ``{kind: rows}``."""
    found = collections.Counter()
    for wrong in left_out:
        found[wrong.kind] += wrong.rows
    return found


def _named(rows, names):
    """``(rows, notes)``: labels that are numbers from 0 become the `names` of a file labels.txt, if there is one."""
    numbers = {str(number): name for number, name in enumerate(names)}
    if not names or not {row.label for row in rows} <= numbers.keys():
        return rows, ()
    rows = [dataclasses.replace(row, label=numbers[row.label]) for row in rows]
    return rows, (f"The labels are numbers; {layout.LABELS} beside the table names them.",)


def _columns(where, there, *, text, label):
    """``(text, label, notes)``: the names of the columns, those that were not given guessed."""
    notes = []
    for flag, given in (("text", text), ("label", label)):
        names = given.split("+") if flag == "text" and given not in there else [given]
        for name in filter(None, names):
            if name not in there:
                shown = ", ".join(map(repr, there))
                close = errors.suggest(name, there)
                hint = close if close.startswith("did you mean") else "name one of these"
                raise errors.DataError(f"--{flag}={given}: {where} has no column {name!r}; it has {shown}; {hint}")
    if label and label in text.split("+"):
        raise errors.ConfigError(f"--label={label} names a column of --text={text}; the label must not be in the text")
    found = {"text": text, "label": label}
    for flag, usual in (("text", TEXTS), ("label", LABELS)):
        likely = [name for name in there if name.strip().lower() in usual and name not in _used(found)]
        if not found[flag] and len(likely) == 1:
            found[flag] = likely[0]
    for flag in found:
        rest = [name for name in there if name not in _used(found)]
        if not found[flag] and len(there) == 2 and len(rest) == 1:
            found[flag] = rest[0]
    if missing := [flag for flag, name in found.items() if not name]:
        wanted = " and ".join(f"--{flag} should name the column of the {flag}s" for flag in missing)
        raise errors.DataError(f"{wanted}; the first row of {where} names {', '.join(map(repr, there))}")
    if "+" in found["text"] and found["text"] in there:
        raise errors.DataError(f"a '+' joins two columns, so the column {found['text']!r} needs another name")
    for flag, given in (("text", text), ("label", label)):
        if not given:
            notes.append(f"The column of the {flag}s is {found[flag]!r}, by its name; --{flag} names another one.")
    return found["text"], found["label"], tuple(notes)


def _used(found):
    """The columns that the text and the label already have."""
    return {*found["text"].split("+"), *found.values()}


def _row(place, record, *, text, label):
    """``(Row, kind, reason)``; `kind` is "" for a row that can be used."""
    names = text_fields.names_in([text])
    values = {name: record.get(name) for name in names}
    wrong = next((value for value in values.values() if not _missing(value) and not isinstance(value, str)), None)
    fields = {name: value if isinstance(value, str) else "" for name, value in values.items()}
    value = record.get(label)
    if isinstance(value, list | dict | tuple):
        raise errors.DataError(
            f"{place['path']}:{place['line']}: the label is {value!r:.60}; it must be one text or one number"
        )
    raw = "" if _missing(value) else str(value)
    row = Row(fields=fields, label="" if _missing(value) else labels.text_of(value), raw_label=raw, **place)
    if wrong is not None:
        return row, "no text", f"the text is {wrong!r:.60}, and not a text"
    if not row.text:
        return row, "no text", "there is no text" + " and no label" * (not row.label)
    if any(_surrogate(value) for value in (*fields.values(), row.label)):
        return row, "malformed", "the text or label holds half a surrogate pair"
    return row, "" if row.label else "no label", "" if row.label else "there is no label"


def _missing(value):
    """Whether a cell is empty: None, NaN, or white space."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _surrogate(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
