"""``results.json`` beside every page of ``docs/results/``: rows that commands write, and tables made from them.

A row is one measured figure:

    config, overrides   the config file, and what was set on it: ``{"rank": 8}``
    seed                int, or null where nothing is random
    split, metric       what was measured, and on what
    value, paper        ours and the paper's (null: it gives none), in the same unit
    hardware, seconds   where, and how long it took
    command             what makes this row again
    range, date         optional: the lowest and highest of the values measured; the day, as YYYY-MM-DD
"""

import collections
import contextlib
import dataclasses
import fcntl
import json
import math
import os
import pathlib
import shlex
import statistics
import sys

from lwt import errors

SHARES = ("accuracy", "mcc", "exact_match")  # metrics that pages show times 100
NUMBER = (int, float)
KEYS = {  # key -> its types
    "config": (str,),
    "overrides": (dict,),
    "seed": (int, type(None)),
    "split": (str,),
    "metric": (str,),
    "value": NUMBER,
    "paper": (*NUMBER, type(None)),
    "hardware": (str,),
    "seconds": NUMBER,
    "command": (str,),
}
OPTIONAL = {"range": (list, type(None)), "date": (str,)}  # keys that a row may also have
IDENTITY = ("config", "overrides", "seed", "split", "metric", "hardware")


def append(path, row):
    """Adds a row to a file of rows, or puts it in the place of the row that it measures again.

    Rows measure the same when they agree in config, overrides, seed, split, metric and hardware: a study that is run
    again does not count twice. The file is replaced in one move, under a lock on its folder, so that the runs of a job
    array may share it.

    Raises:
        lwt.errors.DataError: a key is missing, unknown, of a wrong type, or not finite; or the file is damaged.
    """
    check(row)
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        rows = load(path) if path.exists() else []
        places = [i for i, old in enumerate(rows) if all(old[key] == row[key] for key in IDENTITY)]
        place = places[0] if places else len(rows)
        rows[place : place + 1] = [row]
        _replace(path, rows)


def write(path, rows):
    """Writes a whole file of rows in one move, in the place of what was there.

    Raises:
        lwt.errors.DataError: a row is wrong, as in `append`.
    """
    rows = list(rows)
    for number, row in enumerate(rows, 1):
        check(row, where=f"row {number} for {path}")
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent):
        _replace(path, rows)


def load(path):
    """The rows of a file, checked.

    Raises:
        lwt.errors.DataError: there is no such file, or it holds something else; the message names the row.
    """
    try:
        rows = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.DataError(f"{path} cannot be read: {error.strerror}; the command of its page writes it") from error
    except ValueError as error:
        raise errors.DataError(f"{path} is not JSON ({error}); the command of its page writes it anew") from error
    if not isinstance(rows, list):
        raise errors.DataError(f"{path} holds a {type(rows).__name__}, expected a list of rows")
    for number, row in enumerate(rows, 1):
        check(row, where=f"{path}, row {number}")
    return rows


def of_run(record, *, command):
    """What the rows of a run have in common: all but ``metric`` and ``value``.

    Args:
        record: what a study kept of it: its ``arguments`` (the seed among them), ``config``, ``figures`` and so on.
    """
    overrides = dict(record["arguments"])
    return {
        "config": record["config"],
        "seed": overrides.pop("seed"),
        "overrides": overrides,
        "split": record["figures"]["data"],
        "hardware": record["hardware"],
        "seconds": record["seconds"],
        "command": command,
        "paper": None,
    }


def check(row, *, where="result row"):
    """Raises `lwt.errors.DataError` unless a row has all keys, no others, of the right types, and finite numbers."""
    if not isinstance(row, dict):
        raise errors.DataError(f"{where}: expected an object with the keys {', '.join(KEYS)}, not {row!r}")
    for key in KEYS:
        if key not in row:
            raise errors.DataError(f"{where}: {key!r} is missing; a row has {', '.join(KEYS)}")
    types = KEYS | OPTIONAL
    for key, value in row.items():
        if key not in types:
            raise errors.DataError(f"{where}: unknown key {key!r}; {errors.suggest(key, types)}")
        if not isinstance(value, types[key]) or isinstance(value, bool):
            kinds = " or ".join("null" if kind is type(None) else kind.__name__ for kind in types[key])
            raise errors.DataError(f"{where}: {key}={value!r} should be of type {kinds}")
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.DataError(f"{where}: {key}={value!r} is not a finite number")


@dataclasses.dataclass(frozen=True)
class Cell:
    """Rows put together: mean, sample standard deviation (0 for one row) and number of values; the paper's value."""

    mean: float
    deviation: float
    count: int
    paper: float | None = None

    @classmethod
    def of(cls, values, *, scale=1.0, paper=None):
        """The cell of some values, each times `scale`."""
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(scale * statistics.fmean(values), scale * deviation, len(values), paper)

    def text(self, digits):
        """``0.950 ± 0.012 (n=3)``."""
        spread = f" ± {self.deviation:.{digits}f}" if self.count > 1 else ""
        return f"{self.mean:.{digits}f}{spread} (n={self.count})"


def cells(rows, *, index, columns):
    """``{index value: {column value: Cell}}`` in the order of the rows.

    Args:
        rows: from `load`.
        index, columns: what tells lines and columns apart: a key of the rows, or a key of their overrides.

    Raises:
        lwt.errors.DataError: no row has such a key; or the rows of one cell give different values of the paper.
    """
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        groups[_get(row, index)][_get(row, columns)].append(row)
    return {i: {c: _cell(found, f"{i}, {c}") for c, found in line.items()} for i, line in groups.items()}


def pivot(rows, *, index, columns, digits=3, scale=1.0, paper=True):
    """A Markdown table: mean ± standard deviation over the rows (seeds) of a cell, and how many.

    Args:
        rows, index, columns: see `cells`.
        digits: after the point.
        scale: factor on what is shown: 100 for per cent.
        paper: whether a column with figures of the paper gets a second one that shows them.
    """
    scaled = [row | {key: row[key] * scale for key in ("value", "paper") if row[key] is not None} for row in rows]
    lines = cells(scaled, index=index, columns=columns)
    names = list(dict.fromkeys(name for line in lines.values() for name in line))
    with_paper = [
        name for name in names if paper and any(name in x and x[name].paper is not None for x in lines.values())
    ]
    header = [index]
    for name in names:
        header += [str(name), f"{name}, paper"] if name in with_paper else [str(name)]
    body = []
    for label, line in lines.items():
        body.append([str(label)])
        for name in names:
            cell = line.get(name)
            body[-1].append(cell.text(digits) if cell else "–")
            if name in with_paper:
                body[-1].append(f"{cell.paper:.{digits}f}" if cell and cell.paper is not None else "–")
    return markdown(header, body)


def markdown(header, body):
    """A Markdown table of texts; the first column is left-aligned, the others right-aligned."""
    rule = [":---", *["---:"] * (len(header) - 1)]
    return "".join(
        f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |\n" for line in [header, rule, *body]
    )


def command_line():
    """The command that started this program, as one would type it in the folder it was started in.

    Without ``--report_only``: what it reported was measured by the same command without it.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    program = ["python", "-m", spec.name.removesuffix(".__main__")] if spec else ["python", sys.argv[0]]
    here = os.getcwd() + os.sep
    given = [part for part in sys.argv[1:] if part != "--report_only"]
    return shlex.join(part.replace(here, "") for part in [*program, *given])


def _get(row, key):
    for place in (row, row["overrides"]):
        if key in place:
            return place[key]
    known = sorted({*KEYS, *row["overrides"]})
    raise errors.DataError(f"a result row has no {key!r}, nor have its overrides; {errors.suggest(key, known)}")


def _cell(rows, where):
    values = [row["value"] for row in rows]
    papers = {row["paper"] for row in rows if row["paper"] is not None}
    if len(papers) > 1:
        raise errors.DataError(
            f"rows of one cell ({where}) give the paper's value as {sorted(papers)}; it has only one"
        )
    return Cell.of(values, paper=min(papers, default=None))


@contextlib.contextmanager
def _locked(folder):
    """Holds the lock of a folder: the folder itself is locked, so that no lock file is left behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path, rows):
    partial = path.with_name(path.name + ".partial")
    ordered = [{key: row[key] for key in (*KEYS, *OPTIONAL) if key in row} for row in rows]
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in ordered]
    partial.write_text("[\n" + ",\n".join(f"  {line}" for line in lines) + "\n]\n", encoding="utf-8")
    os.replace(partial, path)
