"""``records.jsonl.gz``: the finished runs that a page was made from, one line a run, sorted by name.

A line is ``{"name", "config", "records", "metrics", "hardware"}``: the run's ``config.json``, the JSON files that a
study wrote about it (by their path in the run's folder) and, where a page needs them, the rows of ``metrics.jsonl`` and
the text of ``hardware.txt``. `unpack` turns lines into folders of runs, `update` adds finished runs to the file. A page
about one measurement has one line, ``page``, whose record is all that the page says (`of_page`).

The file is compressed, since the configs of a study are much alike: ``gzip -dc records.jsonl.gz`` shows it. `load` also
reads one that is not.
"""

import contextlib
import dataclasses
import gzip
import json
import os
import pathlib
import zlib

from lwt import errors, files
from lwt.report import pages
from lwt.runs import checkpoint, config_file, run_config

NAME = "records.jsonl.gz"
CONFIG, METRICS, HARDWARE = run_config.NAME, "metrics.jsonl", "hardware.txt"
KEYS = ("name", "config", "records", "metrics", "hardware")
PAGE, FACTS = "page", "facts.json"
GZIP = b"\x1f\x8b"  # how a compressed file begins


def load(path):
    """The lines of a file of records: ``{name: line}``.

    Raises:
        lwt.errors.DataError: the file cannot be read, or a line is not a record; the message names the line.
    """
    try:
        data = pathlib.Path(path).read_bytes()
        text = (gzip.decompress(data) if data.startswith(GZIP) else data).decode()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise errors.DataError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise errors.DataError(f"{path} cannot be read: {error.strerror}; a study writes it beside its page") from error
    except ValueError as error:
        raise errors.DataError(f"{path} is not UTF-8: {error}") from error
    found = {}
    lines = text.removesuffix("\n").split("\n") if text else []  # a record may hold U+2028, where splitlines() cuts
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise errors.DataError(f"{path}:{number} is not JSON: {error}") from error
        _check(record, f"{path}:{number}")
        found[record["name"]] = record
    return found


def write(path, lines):
    """Writes ``{name: line}``, sorted by name.

    Raises:
        lwt.errors.DataError: a line is not a record.
    """
    text = ""
    for name in sorted(lines):
        _check(lines[name], f"the record {name} for {path}")
        line = {key: lines[name][key] for key in KEYS if key in lines[name]}
        text += json.dumps(line, ensure_ascii=False) + "\n"
    files.write_bytes(path, gzip.compress(text.encode(), mtime=0))


def unpack(path, workdir):
    """Writes the files of every run in a file of records into ``WORKDIR/NAME``.

    Files that exist there are kept, and runs with checkpoints are left alone: they know more than their records.

    Raises:
        lwt.errors.DataError: as `load`.
    """
    for name, line in load(path).items():
        folder = pathlib.Path(workdir, name)
        if (folder / checkpoint.FOLDER).is_dir():
            continue
        values = ({CONFIG: line["config"]} if "config" in line else {}) | line["records"]
        texts = {file: json.dumps(value, indent=2, ensure_ascii=False) for file, value in values.items()}
        if "metrics" in line:
            texts[METRICS] = "".join(json.dumps(row) + "\n" for row in line["metrics"])
        if "hardware" in line:
            texts[HARDWARE] = line["hardware"]
        for file, text in texts.items():
            if not (folder / file).exists():
                files.write_text(folder / file, text)


def set_aside(folder, record):
    """Renames the files of a run that will be trained again to ``FILE.replaced``: they may exist nowhere else.

    Args:
        folder: of the run.
        record: path of its record in the folder.
    """
    for file in (record, CONFIG, METRICS, HARDWARE):
        path = pathlib.Path(folder, file)
        if path.exists():
            path.replace(path.with_name(f"{path.name}.replaced"))


def of_folder(folder, kept, *, metrics=False):
    """The line of a run: the JSON files `kept` and, with `metrics`, ``metrics.jsonl`` and ``hardware.txt``."""
    folder = pathlib.Path(folder)
    line = {"name": folder.name}
    if (folder / CONFIG).exists():
        line["config"] = _json(folder / CONFIG)
    line["records"] = {file: _json(folder / file) for file in kept}
    if metrics and (folder / METRICS).exists():
        text = (folder / METRICS).read_text(encoding="utf-8")
        line["metrics"] = [json.loads(row) for row in text.splitlines()]
    if metrics and (folder / HARDWARE).exists():
        line["hardware"] = (folder / HARDWARE).read_text(encoding="utf-8")
    return line


def update(path, workdir, *, found, record, metrics=()):
    """Adds runs to a file of records; lines of runs whose record did not change stay as they are.

    Args:
        path: of the file; it need not exist.
        workdir: folder of the runs.
        found: ``{name: record}`` of the finished runs.
        record: path of the record in a run's folder.
        metrics: names of the runs whose ``metrics.jsonl`` is kept, too.
    """
    lines, changed = load(path) if pathlib.Path(path).exists() else {}, False
    for name, value in found.items():
        line, folder = lines.get(name, {}), pathlib.Path(workdir, name)
        lacks_metrics = name in metrics and "metrics" not in line and (folder / METRICS).exists()
        if line.get("records", {}).get(record) != value or lacks_metrics:
            lines[name], changed = line | of_folder(folder, [record], metrics=name in metrics), True
    if changed:
        write(path, lines)


def of_page(out, measure, *, run="", report_only=False):
    """What a page is made of: the dict of `measure()`, kept in its folder `out`; with `report_only` the one kept there.

    Args:
        out: folder of the page.
        measure: ``() -> dict`` of JSON values.
        run: folder of the run whose ``metrics.jsonl`` is kept, too; "" for none.

    Raises:
        lwt.errors.DataError: `report_only`, and nothing is kept.
    """
    path = pathlib.Path(out, NAME)
    if not report_only:
        pages.make_folder(out)
        line = of_folder(run, [], metrics=True) if run else {}
        write(path, {PAGE: line | {"name": PAGE, "records": {FACTS: measure()}}})
    try:
        return load(path)[PAGE]["records"][FACTS]
    except KeyError as error:
        raise errors.DataError(f"{path} has no line {PAGE!r} with {FACTS}; run without --report_only") from error


def differs(folder, config, *, length=False):
    """How the config that a run was finished with differs from `config`; "" if it does not.

    Paths inside the study's workdir may be those of another one: its runs were finished elsewhere. With `length`, the
    runs must be equally long, too.
    """
    inside = os.path.dirname(os.path.normpath(folder)) + os.sep

    def same(old, new):
        if isinstance(old, list) and isinstance(new, list):
            return len(old) == len(new) and all(map(same, old, new))
        if isinstance(old, str) and isinstance(new, str) and new.startswith(inside):
            return old.endswith(os.sep + new.removeprefix(inside))
        return old == new

    try:
        return run_config.difference(folder, config, same=same, length=length)
    except errors.CheckpointError:
        return "its config was not kept"


def with_differences(found, entries, *, workdir, config=None):
    """The records `found`, with "differs" in those that their config file would train differently today.

    A page says so. A config that starts from a run that does not exist here is not compared.

    Args:
        found: ``{name: record}``.
        entries: `study.Entry` objects.
        workdir: of the study.
        config: ``entry -> config``, or None for what is used whatever its config; default: that of its spec.
    """
    marked = dict(found)
    for entry in entries:
        folder = os.path.join(workdir, entry.name)
        if entry.name in found and entry.spec and os.path.exists(os.path.join(folder, run_config.NAME)):
            own = dataclasses.replace(entry, spec=found[entry.name].get("config", entry.spec))
            with contextlib.suppress(errors.LwtError, OSError):
                wanted = config(own) if config else config_file.load(own.spec)
                if wanted and (why := differs(folder, wanted)):
                    marked[entry.name] = found[entry.name] | {"differs": why}
    return marked


def _check(line, where):
    """Refuses what is not a record, and names that would lead out of a workdir."""
    if not isinstance(line, dict) or not isinstance(line.get("name"), str) or not isinstance(line.get("records"), dict):
        raise errors.DataError(f"{where} is not a record: it needs a name, and records by their file")
    for key in line:
        if key not in KEYS:
            raise errors.DataError(f"{where}: unknown key {key!r}; {errors.suggest(key, KEYS)}")
    for name in (line["name"], *line["records"]):
        path = pathlib.PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise errors.DataError(f"{where}: {name!r} is not a path inside a workdir")


def _json(path):
    try:
        return json.loads(files.read(path))
    except ValueError as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error
