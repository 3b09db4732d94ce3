"""The study of LoRA's rank on one trained base: every run of a sweep, its evaluation, and the report.

    python -m studies.lora_ranks --base=runs/pool --workdir=runs/ranks --out=docs/results/lora_ranks
    python -m studies.lora_ranks --base=runs/pool --workdir=runs/ranks --index=$SLURM_ARRAY_TASK_ID
    python -m studies.lora_ranks --base=runs/pool --workdir=runs/ranks --report_only

Every run has a folder in the workdir, with a name like ``rank16-lora-one-seed0``. How runs are chosen, resumed and
reported: `lwt/report/study.py`.
"""

import functools
import os
import re

from absl import flags

from lwt import errors
from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import study
from lwt.runs import checkpoint, config_file, experiment, run_config
from studies.lora_ranks import report as rank_report

RECORD = os.path.join("eval", "rank_study.json")


def entries(path, base, *, seeds=3, more=""):
    """The runs of the ``sweep(seeds)`` of the config file `path`, in its order.

    Args:
        path: a config file with ``sweep`` and ``get_config``.
        base: workdir of the run that all start from.
        more: further arguments of every run, ``"steps=500,rate=0.002"``.

    Raises:
        lwt.errors.ConfigError: the file has no sweep.
    """
    sweep = getattr(config_file.module(path), "sweep", None)
    if sweep is None:
        raise errors.ConfigError(f"--config={path} has no sweep(); configs/lora_ranks.py has one")
    return [
        study.Entry(name_of(arguments), arguments, study.spec_of(path, {"base": base, **arguments}, more=more))
        for arguments in sweep(seeds)
    ]


def name_of(arguments):
    """``{"rank": 16, "method": "lora", "scaling": "one", "seed": 0}`` -> ``"rank16-lora-one-seed0"``."""
    rest = [str(value) for key, value in arguments.items() if key not in ("rank", "seed", "method")]
    rank = [f"rank{arguments['rank']}"] if "rank" in arguments else []
    return re.sub(r"[^\w.-]+", "_", "-".join([*rank, arguments["method"], *rest, f"seed{arguments['seed']}"]))


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; evaluates it once; returns its record."""
    return study.run(entry, workdir, measure=measure, record=RECORD)


def measure(entry, folder):
    """The record of a run: figures of the best checkpoint on the test set."""
    del entry
    trained = experiment.load(folder)
    return {
        "learning_rate": trained.config.optimizer.learning_rate,
        "checkpoint": trained.step,
        "split": trained.config.data.test,
        "figures": trained.report(),
        "parameters": cost.parameters(trained.config, vocabulary=trained.tokenizer.vocabulary),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
        "base": measure_base(trained.config.init_from),
    }


def measure_base(workdir):
    """What the page says of the run that all start from: its data, its length, and the figures of its best step."""
    config = run_config.read(workdir)
    saved = checkpoint.of_run(workdir, config)
    step = saved.best_step() or saved.last_step()
    figures = {name: value for name, value in saved.metrics(step).items() if isinstance(value, float)} if step else {}
    about = {"data": config.data.train, "steps": config.steps, "checkpoint": step}
    return about | {"workdir": workdir, "figures": figures}


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(values.config, values.base, seeds=values.seeds, more=values.arguments)
    chosen = study.choose(found, only=values.only, index=values.index)
    if not values.report_only:
        run_config.read(values.base)  # one error, not one for every run

    def ordered(records):
        """The records of this sweep, in its order."""
        return {entry.name: records[entry.name] for entry in found if entry.name in records}

    def write(out, records, **more):
        return rank_report.write(out, ordered(records), workdir=values.workdir, **more)

    def curves(records):
        return rank_report.curves(ordered(records))

    run_here = functools.partial(run, workdir=values.workdir)
    study.main(chosen, run_here, write=write, record=RECORD, known=found, expected=found, curves=curves)
