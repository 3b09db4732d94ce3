"""Studies: many runs, their figures, and a report. What `rank_study` and `embbert_study` have in common.

Every run has a folder of its own in the study's workdir. The same command goes on where it stopped: a finished run is
left alone, a broken-off one is taken up again. A run that fails is named (exit code 1) and does not stop the others.
``--only=REGEX`` takes the runs whose name matches; ``--index`` takes one of them, for a job array, and writes no
report. The report holds all runs that have figures, and lies in the workdir unless ``--out`` says where.
"""

import dataclasses
import gc
import json
import logging
import os
import re
import sys

import jax
from absl import flags

from lwt import errors
from lwt.report import plots, results
from lwt.runs import assembly, checkpoint, config_file, run_config
from lwt.training import build, train

LOG = logging.getLogger(__name__)


class Interrupted(errors.LwtError):
    """A run was asked to stop (SIGTERM) and saved its state; the study stops with it."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One run of a study.

    Attributes:
        name: of its folder.
        arguments: what tells it from the others.
        spec: ``FILE.py:key=value,...``, as ``train.py --config`` takes it.
    """

    name: str
    arguments: dict
    spec: str


def spec_of(path, arguments, more=""):
    """``FILE.py:key=value,...`` from the arguments of a config file, with `more` of them at the end."""
    given = [f"{key}={value}" for key, value in arguments.items()]
    return f"{path}:{','.join([*given, *filter(None, [more])])}"


def choose(found, *, only="", index=-1):
    """The entries whose name has a part that the regex `only` matches; of these the one at `index`, if that is not -1.

    Raises:
        lwt.errors.ConfigError: none is left.
    """
    try:
        chosen = [entry for entry in found if re.search(only, entry.name)]
    except re.error as error:
        raise errors.ConfigError(f"--only={only!r} is not a regular expression: {error}") from error
    if not chosen:
        raise errors.ConfigError(f"--only={only!r} matches none of the {len(found)} runs: {found[0].name}, ...")
    if index >= len(chosen):
        raise errors.ConfigError(f"--index={index}: there are the runs 0 to {len(chosen) - 1}")
    return chosen if index < 0 else [chosen[index]]


def run(entry, workdir, measure, *, record, config=None):
    """Trains, goes on with, or leaves alone the run of `entry`; measures it once; returns its record.

    A run of which the record and the config alone were kept is left alone, too.

    Args:
        workdir: of the study.
        measure: ``(entry, folder) -> dict``, what is to be kept of the finished run, beside its arguments, config and
            number of steps.
        record: file of the run's folder that keeps it.
        config: None for that of the entry's spec.

    Raises:
        lwt.errors.LwtError: as training and `measure` do; `Interrupted` after a SIGTERM.
    """
    folder, config = os.path.join(workdir, entry.name), config or config_file.load(entry.spec)
    run_config.keep(config, folder)  # a finished run of another base or rate is not one of this study
    kept = read_record(folder, record)
    steps = steps_of(config, folder, kept)
    if kept and kept["steps"] == steps and not os.path.isdir(os.path.join(folder, checkpoint.FOLDER)):
        return kept
    if not finished(folder, steps):
        train.run(config, folder)
        if not finished(folder, steps):
            raise Interrupted(f"{folder}: stopped before step {steps}; the same command goes on from there")
    if kept and kept["steps"] == steps:
        return kept
    found = {"arguments": entry.arguments, "config": entry.spec, "steps": steps} | measure(entry, folder)
    write_record(folder, record, found)
    return found


def steps_of(config, folder, kept=None):
    """Optimizer steps of a run. Of one in epochs the data have to be counted, unless its record `kept` tells."""
    if not config.epochs:
        return config.steps
    if kept and kept.get("epochs") == config.epochs:
        return kept["steps"]
    return build.in_steps(config, assembly.make_data(config, folder).training()).steps


def finished(folder, steps):
    """Whether the last whole checkpoint of a run is that of its last step.

    Raises:
        lwt.errors.ConfigError: it is of a later one.
    """
    last = checkpoint.of_run(folder).last_step() or 0
    if last > steps:
        raise errors.ConfigError(f"{folder} holds {last} steps, more than this study's {steps}; give another --workdir")
    return last == steps


def read_record(folder, record):
    """What `run` kept of a run, or None."""
    try:
        with open(os.path.join(folder, record)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def folders(workdir):
    """``{name: folder}`` of all runs of a workdir."""
    names = sorted(os.listdir(workdir)) if os.path.isdir(workdir) else []
    return {name: os.path.join(workdir, name) for name in names}


def collect(workdir, chosen, record):
    """All runs of a workdir that have figures, whether chosen or not: ``(records, missing)``.

    Args:
        workdir: of the study.
        chosen: the entries that were asked for.
        record: file of a run's record.

    Returns:
        ``{name: record}``; names of chosen runs that have no record.

    Raises:
        lwt.errors.DataError: no run has one.
    """
    records = {name: found for name, folder in folders(workdir).items() if (found := read_record(folder, record))}
    missing = [entry.name for entry in chosen if entry.name not in records]
    if not records:
        raise errors.DataError(
            f"none of the {len(missing)} runs has figures yet; the study without --report_only makes them"
        )
    return records, missing


def report(chosen, record, write):
    """Writes the report of what `collect` finds; returns the names of its files.

    Args:
        chosen, record: see `collect`.
        write: ``(out, {name: record}, missing=names, command=this call) -> names`` of the files.
    """
    values = flags.FLAGS
    records, missing = collect(values.workdir, chosen, record)
    return write(out_of(values), records, missing=missing, command=results.command_line())


def out_of(values):
    """Folder of the report, from the program's flags."""
    return values.out or os.path.join(values.workdir, "report")


def write_record(folder, record, found):
    """Keeps the dict `found` as the run's record; the file appears whole or not at all."""
    path = os.path.join(folder, record)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.tmp", "w") as file:
        json.dump(found, file, indent=2)
    os.replace(f"{path}.tmp", path)


def seconds(folder):
    """Seconds of a run's training, its evaluations included, from its metrics.jsonl.

    Raises:
        lwt.errors.DataError: there is no such file, or no row in it.
    """
    times = plots.read(folder, "time")[1]
    if not times:
        raise errors.DataError(f"{folder}/metrics.jsonl holds no row; training writes it")
    return times[-1]


def listed(names, *, limit=6):
    """``"a, b, c and 4 more"``."""
    names = list(names)
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


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
        jax.clear_caches()  # compiled functions of a run are of no use to the next; they would pile up
        gc.collect()
    return failures


def define_flags():
    """The flags of a study's program."""
    flags.DEFINE_string("workdir", None, "Folder of the runs.")
    flags.DEFINE_string("out", "", "Folder of the report; none: WORKDIR/report.")
    flags.DEFINE_integer("index", -1, "Run only this one, counted from 0.", lower_bound=-1)
    flags.DEFINE_integer("seeds", 3, "Runs of every setting.", lower_bound=1)
    flags.DEFINE_string("only", "", "A regex for the names of the runs to take.")
    flags.DEFINE_boolean("report_only", False, "Train nothing: the report of what is there.")


def main(chosen, run, report):
    """The program of a study: runs, then reports; exit code 1 if a run failed.

    Args:
        chosen: entries.
        run: ``entry -> None``.
        report: ``() -> names`` of the files that it wrote.
    """
    values = flags.FLAGS
    os.makedirs(values.workdir, exist_ok=True)
    # Runs that differ in their seed alone compile the same programs: the second one reads them from here.
    jax.config.update("jax_compilation_cache_dir", os.path.abspath(os.path.join(values.workdir, ".compiled")))
    failures = {} if values.report_only else run_all(chosen, run)
    for name, why in failures.items():
        print(f"failed: {name}: {' '.join(why.split())}", file=sys.stderr)
    if values.index < 0 or values.report_only:
        print(f"wrote {out_of(values)}/{', '.join(report())}")
    if failures:
        sys.exit(1)
