"""The study of LoRA's rank on one trained base: every run of a sweep, its evaluation, and the report.

    python -m lwt.analysis.rank_study --base=runs/pool --workdir=runs/ranks --out=docs/results/lora_ranks
    python -m lwt.analysis.rank_study --base=runs/pool --workdir=runs/ranks --index=$SLURM_ARRAY_TASK_ID
    python -m lwt.analysis.rank_study --base=runs/pool --workdir=runs/ranks --report_only

Every run has a folder of its own in the workdir, named like ``rank16-lora-one-seed0``. The same command goes on where
it stopped: a finished run is left alone, a broken-off one is taken up again. A run that fails is named (exit code 1)
and does not stop the others. ``--only=REGEX`` takes the runs whose name matches; ``--index`` takes one of them, for a
job array, and writes no report. The report holds all runs that have figures.
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
from lwt.analysis import config_files, cost, rank_report, results
from lwt.training import build, checkpoint, command, experiment

LOG = logging.getLogger("lwt.analysis.rank_study")  # as a program its __name__ is another
RECORD = os.path.join("eval", "rank_study.json")


class Interrupted(errors.LwtError):
    """A run was asked to stop (SIGTERM) and saved its state; the study stops with it."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One run of the study.

    Attributes:
        name: of its folder.
        arguments: of the config file, as `sweep` gives them.
        spec: ``FILE.py:key=value,...``, as ``train.py --config`` takes it.
    """

    name: str
    arguments: dict
    spec: str


def entries(path, base, *, seeds=3, more=""):
    """The runs of the ``sweep(seeds)`` of the config file `path`, in its order.

    Args:
        path: a config file with ``sweep`` and ``get_config``.
        base: workdir of the run that all start from.
        more: arguments of every run besides, ``"steps=500,rate=0.002"``.

    Raises:
        lwt.errors.ConfigError: no sweep there.
    """
    sweep = getattr(config_files.module(path), "sweep", None)
    if sweep is None:
        raise errors.ConfigError(f"--config={path} has no sweep(); configs/lora_ranks.py has one")
    found = []
    for arguments in sweep(seeds):
        given = [f"{key}={value}" for key, value in {"base": base, **arguments}.items()]
        found.append(Entry(name_of(arguments), arguments, f"{path}:{','.join([*given, *filter(None, [more])])}"))
    return found


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


def name_of(arguments):
    """``{"rank": 16, "method": "lora", "scaling": "one", "seed": 0}`` -> ``"rank16-lora-one-seed0"``."""
    rest = [str(value) for key, value in arguments.items() if key not in ("rank", "seed", "method")]
    rank = [f"rank{arguments['rank']}"] if "rank" in arguments else []
    return re.sub(r"[^\w.-]+", "_", "-".join([*rank, arguments["method"], *rest, f"seed{arguments['seed']}"]))


def run(entry, workdir):
    """Trains, goes on with, or leaves alone the run of `entry`; evaluates it once; returns its record.

    Raises:
        lwt.errors.LwtError: as training and evaluation do; `Interrupted` after a SIGTERM.
    """
    folder, config = os.path.join(workdir, entry.name), config_files.load(entry.spec)
    build.keep_config(config, folder)  # a finished run of another base or rate is not one of this study
    if not finished(folder, config.steps):
        experiment.train(config, folder)
        if not finished(folder, config.steps):
            raise Interrupted(f"{folder}: stopped before step {config.steps}; the same command goes on from there")
    record = read_record(folder)
    if record and record["steps"] == config.steps:
        return record
    return evaluate(entry, folder)


def finished(folder, steps):
    """Whether the last whole checkpoint of a run is that of its last step.

    Raises:
        lwt.errors.ConfigError: it is of a later one.
    """
    last = checkpoint.Checkpoints(os.path.join(folder, "checkpoints")).last_step() or 0
    if last > steps:
        raise errors.ConfigError(f"{folder} holds {last} steps, more than this study's {steps}; give another --workdir")
    return last == steps


def evaluate(entry, folder):
    """Figures of the best checkpoint on the test set, kept in the run's folder as `RECORD`."""
    opened = experiment.load(folder)
    record = {
        "arguments": entry.arguments,
        "config": entry.spec,
        "steps": opened.config.steps,
        "learning_rate": opened.config.optimizer.learning_rate,
        "checkpoint": opened.step,
        "split": opened.config.data.test,
        "figures": opened.report(),
        "parameters": cost.parameters(opened.config, vocabulary=opened.tokenizer.vocabulary),
        "hardware": results.hardware(),
    }
    path = os.path.join(folder, RECORD)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.tmp", "w") as file:
        json.dump(record, file, indent=2)
    os.replace(f"{path}.tmp", path)
    return record


def read_record(folder):
    """What `evaluate` kept of a run, or None."""
    try:
        with open(os.path.join(folder, RECORD)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def study(chosen, workdir):
    """Runs all of `chosen`, one after the other; returns ``{name: why}`` of those that failed."""
    failures = {}
    for number, entry in enumerate(chosen, 1):
        LOG.info("run %d of %d: %s", number, len(chosen), entry.name)
        try:
            run(entry, workdir)
        except Interrupted:
            raise
        except Exception as error:  # whatever it is, the other runs are worth having
            if not isinstance(error, errors.LwtError):
                LOG.exception("%s failed", entry.name)
            failures[entry.name] = f"{type(error).__name__}: {error}"
        jax.clear_caches()  # compiled functions of a run are of no use to the next; they would pile up
        gc.collect()
    return failures


def main():
    """The program: runs, then reports; exit code 1 if a run failed."""
    values = flags.FLAGS
    found = entries(values.config, values.base, seeds=values.seeds, more=values.arguments)
    chosen = choose(found, only=values.only, index=values.index)
    if not values.report_only:
        build.read_config(values.base)  # one error, not one for every run
    os.makedirs(values.workdir, exist_ok=True)
    # Runs that differ in their seed alone compile the same programs: the second one reads them from here.
    jax.config.update("jax_compilation_cache_dir", os.path.abspath(os.path.join(values.workdir, ".compiled")))
    failures = {} if values.report_only else study(chosen, values.workdir)
    for name, why in failures.items():
        print(f"failed: {name}: {' '.join(why.split())}", file=sys.stderr)
    if values.index < 0 or values.report_only:
        folders = {entry.name: os.path.join(values.workdir, entry.name) for entry in found}
        records = {name: read_record(folder) for name, folder in folders.items()}
        rank_report.write(values.out, records, folders, base=values.base, command=results.command_line())
        print(f"wrote {values.out}/README.md, results.json, table.csv, accuracy.png, loss.png")
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    flags.DEFINE_string("config", "configs/lora_ranks.py", "A config file with a sweep().")
    flags.DEFINE_string("base", None, "Workdir of the trained base.")
    flags.DEFINE_string("workdir", None, "Folder of the runs.")
    flags.DEFINE_string("out", "docs/results/lora_ranks", "Folder of the report.")
    flags.DEFINE_integer("index", -1, "Run only this one, counted from 0.", lower_bound=-1)
    flags.DEFINE_integer("seeds", 3, "Runs of every setting.", lower_bound=1)
    flags.DEFINE_string("only", "", "A regex for the names of the runs to take.")
    flags.DEFINE_string("arguments", "", "More arguments of every run: 'steps=500,rate=0.002'.")
    flags.DEFINE_boolean("report_only", False, "Train nothing: the report of what is there.")
    command.run(main, required=["base", "workdir"])
