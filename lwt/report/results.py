"""``results.json`` beside every page of ``docs/results/``: the rows that commands write, and tables made from them.

A row is one measured figure:

    config, overrides   the config file, and what was set on it: ``{"rank": 8}``
    seed                int, or null where nothing is random
    split, metric       what was measured, and on what
    value, paper        ours and the paper's (null: it gives none), in the same unit
    hardware, seconds   where, and how long it took
    command             what makes this row again
    range, date         optional: ``[lowest, highest]`` of repeated measurements (null: measured once), and the day

In the file, rows that follow each other and have all but metric, value, paper and range in common are one line, with
``"values": {metric: value}``, and ``paper`` and ``range`` by metric where there are any. A line without ``command`` has
that of the line before.
"""

import collections
import dataclasses
import json
import math
import pathlib
import re
import statistics

import filelock

from lwt import errors, files

SHARES = ("accuracy", "mcc", "exact_match")  # metrics that pages show in per cent
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
OF_A_METRIC = ("metric", "value", "paper", "range")  # what tells rows of one line apart
IDENTITY = ("config", "overrides", "seed", "split", "metric", "hardware")


def append(path, row):
    """Adds a row to a file of rows; it replaces the row that measures the same.

    Rows measure the same when they agree in config, overrides, seed, split, metric and hardware: a study that is run
    again does not count twice. A lock (``.NAME.lock`` beside the file) lets the runs of a job array share the file.

    Raises:
        lwt.errors.DataError: a key is missing, unknown, of a wrong type, or not finite; or the file is damaged.
    """
    check(row)
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(path.with_name(f".{path.name}.lock")):
        rows = load(path) if path.exists() else []
        places = [i for i, old in enumerate(rows) if all(old[key] == row[key] for key in IDENTITY)]
        place = places[0] if places else len(rows)
        rows[place : place + 1] = [row]
        _replace(path, rows)


def write(path, rows):
    """Writes a whole file of rows, whole or not at all.

    Raises:
        lwt.errors.DataError: a row is wrong, as in `append`.
    """
    rows = list(rows)
    for number, row in enumerate(rows, 1):
        check(row, where=f"row {number} for {path}")
    _replace(path, rows)


def load(path):
    """The rows of a file, checked.

    Raises:
        lwt.errors.DataError: there is no such file, or it holds something else; the message names the row.
    """
    try:
        rows = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.DataError(f"{path} cannot be read: {error.strerror}; the command on its page writes it") from error
    except (ValueError, RecursionError) as error:
        raise errors.DataError(f"{path} is not JSON ({error}); the command on its page writes it again") from error
    if not isinstance(rows, list):
        raise errors.DataError(f"{path} holds a {type(rows).__name__}, expected a list of rows")
    rows = [row for line in _with_commands(rows) for row in _rows(line)]
    for number, row in enumerate(rows, 1):
        check(row, where=f"{path}, row {number}")
    return rows


def of_run(record, *, command_line):
    """What the rows of a run have in common: all but ``metric`` and ``value``.

    Args:
        record: of the run, with its ``arguments`` (the seed among them), ``config``, ``figures`` and so on, and
            ``differs`` if the run has another config than its study.
        command_line: what makes the rows.
    """
    overrides = dict(record["arguments"]) | {key: record[key] for key in ("differs",) if key in record}
    return {
        "config": record["config"],
        "seed": overrides.pop("seed"),
        "overrides": overrides,
        "split": record["figures"]["data"],
        "hardware": record["hardware"],
        "seconds": record["seconds"],
        "command": command_line,
        "paper": None,
    }


def check(row, *, where="result row"):
    """Checks a row: all keys that are not optional, no unknown ones, the right types, and finite numbers.

    Raises:
        lwt.errors.DataError: names the key.
    """
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
            raise errors.DataError(f"{where}: {key}={value!r} must be of type {kinds}")
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.DataError(f"{where}: {key}={value!r} is not a finite number")
    limits = row.get("range")
    if limits is not None and not (
        len(limits) == 2 and all(isinstance(x, NUMBER) and math.isfinite(x) for x in limits)
    ):
        raise errors.DataError(f"{where}: range={limits!r} must be two finite numbers")


@dataclasses.dataclass(frozen=True)
class Cell:
    """Rows taken together: mean, sample standard deviation (0 for one row), number of values, and the paper's value."""

    mean: float
    deviation: float
    count: int
    paper: float | None = None

    @classmethod
    def of(cls, values, *, scale=1.0, paper=None):
        """The cell of `values`, each times `scale`."""
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(scale * statistics.fmean(values), scale * deviation, len(values), paper)

    def text(self, digits):
        """``0.950 ± 0.012 (n=3)``."""
        return f"{self.short(digits)} (n={self.count})"

    def short(self, digits, *, sign=""):
        """``0.950 ± 0.012``, without ± for one row; with ``sign="+"``, a difference: ``+0.950 ± 0.012``."""
        spread = f" ± {self.deviation:.{digits}f}" if self.count > 1 else ""
        return f"{self.mean:{sign}z.{digits}f}{spread}" if sign else f"{self.mean:.{digits}f}{spread}"


def cells(rows, *, index, columns):
    """``{index value: {column value: Cell}}`` in the order of the rows.

    Args:
        rows: from `load`.
        index, columns: what tells lines and columns apart: a key of the rows, or a key of their overrides.

    Raises:
        lwt.errors.DataError: a row has no such key, or the rows of one cell have different values of the paper.
    """
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        groups[_get(row, index)][_get(row, columns)].append(row)
    return {i: {c: _cell(found, f"{i}, {c}") for c, found in line.items()} for i, line in groups.items()}


def named(metric):
    """``(name, unit, factor)`` of a metric in sentences: ``("accuracy", " %", 100)``, ``("BLEU", "", 1)``."""
    name = {"bleu": "BLEU", "mcc": "MCC", "chrf": "chrF", "rougeL": "ROUGE-L"}.get(metric, metric.replace("_", " "))
    return (name, " %", 100) if metric in SHARES else (name, "", 1)


def shown(metric):
    """``(label with the unit, factor)`` of a metric in tables and pictures: ``("accuracy (%)", 100)``."""
    name, unit, factor = named(metric)
    return (f"{name} (%)" if unit else name), factor


def percent(values, *, digits=1):
    """``"87.5 ± 0.6"``, mean and sample standard deviation of shares in per cent; one value has no ±, none is "–"."""
    if not values:
        return "–"
    return Cell.of(values, scale=100).short(digits)


def markdown(header, body):
    """A Markdown table of texts; the first column is left-aligned, the others right-aligned.

    Texts of data may hold markup: pass them through `translation.escape` before.
    """
    rule = [":---", *["---:"] * (len(header) - 1)]
    lines = ([re.sub(r"(?<!\\)\|", r"\|", text) for text in line] for line in [header, rule, *body])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _get(row, key):
    for place in (row, row["overrides"]):
        if key in place:
            return place[key]
    known = sorted({*KEYS, *row["overrides"]})
    raise errors.DataError(f"a result row has no {key!r}, and neither have its overrides; {errors.suggest(key, known)}")


def _cell(rows, where):
    values = [row["value"] for row in rows]
    papers = {row["paper"] for row in rows if row["paper"] is not None}
    if len(papers) > 1:
        raise errors.DataError(f"rows of one cell ({where}) have several values of the paper: {sorted(papers)}")
    return Cell.of(values, paper=min(papers, default=None))


def _with_commands(lines):
    """The lines of the file, each with a command of its own."""
    last = {}
    for line in lines:
        if isinstance(line, dict) and "values" in line:
            line = last | line
            last = {"command": line["command"]} if "command" in line else {}
        yield line


def _rows(line):
    """The rows of a line of the file. A line without values by metric is a row itself, or what `check` will refuse."""
    if not isinstance(line, dict) or "values" not in line:
        return [line]
    common, parts = dict(line), [line.get(key, {}) for key in ("values", "paper", "range")]
    if not all(isinstance(part, dict) for part in parts):
        return [line]
    for key in ("values", "paper", "range"):
        common.pop(key, None)
    values, papers, ranges = parts
    return [
        common
        | {"metric": metric, "value": value, "paper": papers.get(metric)}
        | ({"range": ranges[metric]} if metric in ranges else {})
        for metric, value in values.items()
    ]


def _replace(path, rows):
    lines = []
    for row in rows:
        common = {key: row[key] for key in (*KEYS, *OPTIONAL) if key in row and key not in OF_A_METRIC}
        if not lines or json.dumps(lines[-1][0]) != json.dumps(common) or row["metric"] in lines[-1][1]["values"]:
            lines.append((common, {"values": {}, "paper": {}, "range": {}}))
        found, metric = lines[-1][1], row["metric"]
        found["values"][metric] = row["value"]
        if row["paper"] is not None:
            found["paper"][metric] = row["paper"]
        if "range" in row:
            found["range"][metric] = row["range"]
    whole, last = [], None
    for common, found in lines:
        line = {key: value for key, value in common.items() if key != "command" or value != last}
        whole.append(line | {key: value for key, value in found.items() if value})
        last = common["command"]
    texts = [json.dumps(line, ensure_ascii=False, allow_nan=False) for line in whole]
    files.write_text(path, "[\n" + ",\n".join(f"  {text}" for text in texts) + "\n]\n")
