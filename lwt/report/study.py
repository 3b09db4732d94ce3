"""Studies: many runs, their records, and a page made of them. What the programs of `studies/` share.

Every run has a folder of its own in the study's workdir. The same command continues where it stopped: finished runs are
left alone, interrupted ones are resumed. A run that fails is named (exit code 1) and does not stop the others.
``--only=REGEX`` takes the runs whose name matches; ``--index`` takes one of them, for a job array, and writes no page.
The page holds all runs that have a record. It lies in ``WORKDIR/report``, or in ``--out``.

Beside the page of ``--out`` lies ``records.jsonl.gz`` (`lwt/report/records.py`), with the record of every run of the
page. These runs, or those of another file, ``--records``, count as finished, with or without their folders.
``--report_only --out=FOLDER`` makes the page again from this file alone.
"""

import contextlib
import dataclasses
import functools
import gc
import json
import logging
import os
import re
import sys
import tempfile

import jax
from absl import flags

from lwt import errors, files
from lwt.machine import command_line, interrupts
from lwt.report import pages, plots, records
from lwt.runs import assembly, checkpoint, config_file, run_config
from lwt.training import build, checks, train

LOG = logging.getLogger(__name__)


class Interrupted(errors.LwtError):
    """A run was asked to stop and saved its state; the study stops with it."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One run of a study: its folder's name, what tells it from the others, and ``--config`` of ``train.py``."""

    name: str
    arguments: dict
    spec: str


def spec_of(path, arguments, *, more=""):
    """``FILE.py:key=value,...`` from the arguments of a config file, with `more` of them at the end."""
    given = [f"{key}={value}" for key, value in arguments.items()]
    return f"{path}:{','.join([*given, *filter(None, [more])])}"


def choose(found, *, only="", index=-1):
    """The entries whose name matches the regex `only`; of these the one at `index`, unless that is -1.

    Raises:
        lwt.errors.ConfigError: no entry is left.
    """
    try:
        chosen = [entry for entry in found if re.search(only, entry.name)]
    except re.error as error:
        raise errors.ConfigError(f"--only={only!r} is not a regular expression: {error}") from error
    if not chosen:
        raise errors.ConfigError(f"--only={only!r} matches none of the {len(found)} runs: {found[0].name}, ...")
    if index >= len(chosen):
        raise errors.ConfigError(f"--index={index}: the runs are numbered 0 to {len(chosen) - 1}")
    return chosen if index < 0 else [chosen[index]]


def run(entry, workdir, *, measure, record, config=None):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record.

    A run of which only the record and the config are left counts as finished if they are those of `config`. If not, the
    log names it, its files are set aside, and it is trained again.

    Args:
        entry: the run.
        workdir: of the study.
        measure: ``(entry, folder) -> dict``, what the record holds beside arguments, config and number of steps.
        record: path of the record in the run's folder.
        config: None for that of the entry's spec.

    Raises:
        lwt.errors.LwtError: as training and `measure` do; `Interrupted` after a SIGTERM.
    """
    folder, config = os.path.join(workdir, entry.name), config or config_file.load(entry.spec)
    kept = read_record(folder, record)
    if kept and checkpoint.of_run(folder).last_step() is None:
        why = records.differs(folder, config)
        if not why and kept["steps"] == steps_of(config, folder, kept=kept):
            return kept
        why = why or f"{kept['steps']} steps"
        LOG.info("%s: its record is of another run (%s); it becomes *.replaced, and this one is trained", folder, why)
        records.set_aside(folder, record)
        kept = None
    checks.check_length(config, folder)
    run_config.keep(config, folder)  # refuses a finished run of another base or rate: it is not one of this study
    steps = steps_of(config, folder, kept=kept)
    if not finished(folder, steps):
        with contextlib.suppress(interrupts.Stopped):
            train.run(config, folder)
        if not finished(folder, steps):
            raise Interrupted(f"{folder}: stopped before step {steps}; the same command resumes it")
    if kept and kept["steps"] == steps:
        return kept
    found = {"arguments": entry.arguments, "config": entry.spec, "steps": steps} | measure(entry, folder)
    write_record(folder, found, record=record)
    return found


def steps_of(config, folder, *, kept=None):
    """Optimizer steps of a run. For a length in epochs the data are counted, unless the record `kept` has the steps."""
    if not config.epochs:
        return config.steps
    if kept and kept.get("epochs") == config.epochs:
        return kept["steps"]
    return build.in_steps(config, assembly.make_data(config, folder).training()).steps


def finished(folder, steps):
    """Whether the last complete checkpoint of a run is that of its last step; one of a later step is an error."""
    last = checkpoint.of_run(folder).last_step() or 0
    if last > steps:
        raise errors.ConfigError(f"{folder} holds {last} steps, more than this study's {steps}; give another --workdir")
    return last == steps


def read_record(folder, record):
    """The record of a run; None if it is missing, or damaged, so that the run is measured again."""
    path = os.path.join(folder, record)
    try:
        return files.read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        LOG.warning("%s is damaged (%s); the run is measured again", path, error)
        return None


def write_record(folder, found, *, record):
    """Writes the dict `found` as the record of a run."""
    files.write_text(os.path.join(folder, record), json.dumps(found, indent=2), checked=True)  # a figure may be NaN


def folders(workdir):
    """``{name: folder}`` of all runs of a workdir."""
    names = sorted(os.listdir(workdir)) if os.path.isdir(workdir) else []
    return {name: os.path.join(workdir, name) for name in names}


def collect(workdir, expected, *, record, trained=True):
    """All runs of a workdir that have a record: ``(records, missing)``.

    Args:
        workdir: of the study.
        expected: the entries that should have one.
        record: path of the record in a run's folder.
        trained: whether the runs have just been tried, which an error then says.

    Returns:
        ``{name: record}`` in the order of `expected`, other runs last; and the names of expected runs that have none.

    Raises:
        lwt.errors.DataError: no run has one.
    """
    known = folders(workdir)
    order = [*(entry.name for entry in expected if entry.name in known), *known]
    found = {name: kept for name in dict.fromkeys(order) if (kept := read_record(known[name], record))}
    missing = [entry.name for entry in expected if entry.name not in found]
    if not found:
        why = "each failed, as said above" if trained else "--report_only trains none"
        raise errors.DataError(f"none of the {len(missing)} runs of {workdir} has a record: {why}")
    return found, missing


def seconds(folder):
    """Seconds of a run's training, its evaluations included, from its metrics.jsonl.

    Raises:
        lwt.errors.DataError: there is no such file, or no row in it.
    """
    times = plots.read(folder, "time")[1]
    if not times:
        raise errors.DataError(f"{folder}/metrics.jsonl has no rows; training writes them")
    return times[-1]


def run_all(chosen, run):
    """Calls `run` for every entry, one after the other; returns ``{name: why}`` of those that failed."""
    failures = {}
    for number, entry in enumerate(chosen, 1):
        LOG.info("run %d of %d: %s", number, len(chosen), entry.name)
        try:
            run(entry)
        except Interrupted:
            raise
        except Exception as error:  # whatever it is, the other runs are worth having
            if not isinstance(error, errors.LwtError):
                LOG.exception("%s failed", entry.name)
            failures[entry.name] = f"{type(error).__name__}: {error}"
        if number == len(chosen) or _setting(chosen[number]) != _setting(entry):
            jax.clear_caches()  # compiled functions are of no use to a run of another setting; they would pile up
            gc.collect()
    return failures


def _setting(entry):
    """What tells an entry from others, apart from the seed."""
    own = {key: value for key, value in entry.arguments.items() if key != "seed"}
    return own, re.sub(r"[:,]seed=\d+", "", entry.spec)


def define_flags(*, smoke=True):
    """Defines the flags that all studies have, and `smoke` unless the study has no smoke runs."""
    flags.DEFINE_string("workdir", None, "Folder of the runs. With --report_only and --out it may be left out.")
    flags.DEFINE_string("out", "", "Folder of the page; default: WORKDIR/report.")
    flags.DEFINE_string(
        "records",
        None,
        f"File of finished runs, which are not trained again; default: OUT/{records.NAME} if it exists.",
    )
    flags.DEFINE_integer("index", -1, "Run only this one, counted from 0.", lower_bound=-1)
    flags.DEFINE_integer("seeds", 3, "Runs of every setting.", lower_bound=1, upper_bound=1000)
    command_line.define_regex("only", "", help="A regex for the names of the runs to take.")
    flags.DEFINE_boolean("report_only", False, "Train nothing; write the page of the runs that have a record.")
    if smoke:
        flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each, to check that everything runs.")


def start(main, *, required=()):
    """Starts the program of a study: parses the flags, unpacks the finished runs of ``--records``, calls `main`.

    Args:
        main: the program; it calls `main` of this module.
        required: names of flags that have no default.
    """
    command_line.run(functools.partial(_with_records, main), required=[*required])


def _with_records(main):
    values = flags.FLAGS
    with contextlib.ExitStack() as stack:
        if values.workdir is None:
            if not (values.report_only and values.out):
                raise errors.ConfigError("--workdir is missing; only --report_only with --out goes without one")
            values.workdir = stack.enter_context(tempfile.TemporaryDirectory())
        path = values.records
        if path is None and os.path.exists(os.path.join(values.out, records.NAME)):
            path = os.path.join(values.out, records.NAME)
        if path:
            records.unpack(path, values.workdir)
        main()


def main(found, run, *, write, record, needs=None, config=None, curves=None):
    """The program of a study: trains what is chosen, then writes the page; exit code 1 if a run failed.

    Args:
        found: all entries of the study, in the order of the page.
        run: ``(entry, workdir) -> None``.
        write: ``(out, records, *, missing, command_line) -> names`` of the files that it writes into the folder of the
            page. `records` is ``{name: record}``, `missing` names the runs that were asked for and have no record, and
            `command_line` is what makes the page.
        record: path of the record in a run's folder.
        needs: ``(chosen, found) -> entries``, which adds those that the chosen ones start from; None: there are none.
            With ``--index``, a run is trained alone.
        config: ``entry -> config``, or None for what is used whatever its config; default: that of its spec.
        curves: ``{name: record} -> names`` of the runs whose learning curves the page shows; None: of no run.
    """
    values = flags.FLAGS
    chosen = choose(found, only=values.only, index=values.index)
    if needs and values.index < 0:
        chosen = needs(chosen, found)
    out = values.out or os.path.join(values.workdir, "report")
    try:
        os.makedirs(values.workdir, exist_ok=True)
    except OSError as error:
        raise errors.ConfigError(f"--workdir={values.workdir} cannot be made ({error.strerror})") from error
    if values.index < 0 or values.report_only:
        pages.make_folder(out)
    failures = {} if values.report_only else run_all(chosen, functools.partial(run, workdir=values.workdir))
    for name, why in failures.items():
        print(f"failed: {name}: {' '.join(why.split())}", file=sys.stderr)
    if values.index < 0 or values.report_only:
        kept, missing = collect(values.workdir, found, record=record, trained=not values.report_only)
        if values.out:
            path, metrics = os.path.join(values.out, records.NAME), curves(kept) if curves else ()
            records.update(path, values.workdir, found=kept, record=record, metrics=metrics)
        made = pages.command_line(out if values.report_only else "")
        kept = records.with_differences(kept, found, workdir=values.workdir, config=config)
        missing = [name for name in missing if re.search(values.only, name)]
        written = write(out, kept, missing=missing, command_line=made)
        print(f"wrote {out}/{', '.join(written)}")
    if failures:
        sys.exit(1)
