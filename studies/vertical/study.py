"""Compares Vertical LoRA with the whole model, on images (the paper's Figure 2; also augmented) and in translation.

    python -m studies.vertical --workdir=runs/vertical                              # the paper's size: a GPU
    python -m studies.vertical --workdir=runs/small --size=small --epochs=10        # two cores
    python -m studies.vertical --workdir=runs/vertical --only='^images-(whole|recursive-r4)'
    python -m studies.vertical --workdir=runs/vertical --index=$SLURM_ARRAY_TASK_ID
    python -m studies.vertical --workdir=runs/vertical --report_only

A run is the config of its task (`TASKS`) with a seed, whole or with increments of a rank and a mode. Its folder has a
name like ``images-recursive-r4-seed0``. All runs start from scratch and train for the same steps at the same rate. The
best checkpoint is evaluated on the test set.

How runs are chosen, resumed and reported: `lwt/report/study.py`. The page holds all runs of the workdir that have a
record, whatever the flags.
"""

import dataclasses
import os
import statistics

from absl import flags

from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import plots, study
from lwt.runs import config_file, experiment
from studies.vertical import report as vertical_report

RECORD = os.path.join("eval", "vertical_study.json")
WHOLE = "whole"
RANKS = (8, 4, 2)
IMAGES = "configs/vlora_cifar10.py"


@dataclasses.dataclass(frozen=True)
class Task:
    """A task that is trained whole and with increments.

    Attributes:
        config: file of its config; arguments: of that file.
        chunks: of every stack of layers.
        modes: of the increments.
        settings: other keys that are set, by their dotted names.
    """

    config: str
    arguments: dict
    chunks: int
    modes: tuple = ("recursive", "base")
    settings: dict = dataclasses.field(default_factory=dict)


TASKS = {
    "images": Task(IMAGES, dict(precision="bfloat16"), chunks=3),
    "unaugmented": Task(IMAGES, dict(precision="bfloat16", augment="none"), chunks=3),
    "translation": Task(
        "configs/translation.py",
        dict(data="multi30k"),
        chunks=1,
        modes=("recursive",),
        settings={"steps": 1_500, "eval_every": 500, "save_every": 500, "optimizer.schedule.warmup": 300},
    ),
}
SMALL = {  # six layers for images, not twelve; bfloat16 is slower than float32 on most CPUs
    "images": dataclasses.replace(TASKS["images"], arguments=dict(precision="float32"), chunks=2),
    "unaugmented": dataclasses.replace(
        TASKS["unaugmented"], arguments=dict(precision="float32", augment="none", rows=32, rate=5e-4), chunks=2
    ),
    "translation": dataclasses.replace(TASKS["translation"], arguments=dict(data="multi30k", precision="float32")),
}


def entries(*, seeds=1, size="paper", epochs=0.0, smoke=False):
    """The runs of the study, seed by seed.

    Args:
        seeds: runs of every setting.
        size: of the images' model, see `configs/vlora_cifar10.py`; epochs: of its training, 0 for the size's own.
        smoke: whether to train tiny models for two steps each.
    """
    found = []
    for seed in range(seeds):
        for task, about in TASKS.items():
            about = SMALL.get(task, about) if size == "small" else about
            own = dict(size=size, epochs=epochs) if about.config == IMAGES else {}
            spec = study.spec_of(about.config, about.arguments | own, more="smoke=true" if smoke else "")
            found.append(study.Entry(f"{task}-{WHOLE}-seed{seed}", dict(task=task, mode=WHOLE, seed=seed), spec))
            for mode in about.modes:
                for rank in RANKS:
                    arguments = dict(task=task, mode=mode, rank=rank, chunks=about.chunks, seed=seed)
                    found.append(study.Entry(f"{task}-{mode}-r{rank}-seed{seed}", arguments, spec))
    return found


def config_of(entry):
    """The config of a run: that of its task, with the settings of the study and its increments."""
    config, arguments = config_file.load(entry.spec), entry.arguments
    with config.unlocked():
        config.seed = arguments["seed"]
        if "smoke" not in entry.spec:  # the settings say how long it trains
            config.update_from_flattened_dict(TASKS[arguments["task"]].settings)
        if arguments["mode"] != WHOLE:
            config.reparam = {"name": "vertical"} | {key: arguments[key] for key in ("chunks", "rank", "mode")}
    return config


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record."""
    return study.run(entry, workdir, measure=measure, record=RECORD, config=config_of(entry))


def measure(entry, folder):
    """The record of a run: figures on the test set, sizes, the time of a step, and its curves."""
    trained = experiment.load(folder)
    config = trained.config
    vocabulary = trained.tokenizer.vocabulary if trained.tokenizer else 0
    made = cost.shapes(config, vocabulary=vocabulary, outputs=len(trained.labels))
    rates = plots.read(folder, "train/steps_per_second")[1]
    counted = cost.parameters(config, made=made)["total"]
    names = ("loss", vertical_report.METRICS[entry.arguments["task"]].name)
    return {
        "checkpoint": trained.step,
        "figures": trained.report(),
        "costs": {
            "parameters": counted,
            "parameter_bytes": 4 * counted,
            "optimizer_bytes": cost.optimizer_bytes(config, made=made),
            "step_seconds": 1 / statistics.median(rates[1:] or rates),  # the first holds the compilation
        },
        "curves": {
            part: {name: plots.read(folder, f"{part}/{name}") for name in names} for part in ("train", "validation")
        },
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, size=values.size, epochs=values.epochs, smoke=values.smoke)
    study.main(found, run, write=vertical_report.write, record=RECORD, config=config_of)
