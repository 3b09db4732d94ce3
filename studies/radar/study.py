"""LH-ViT beside a ViT of as many weights, a CNN and a linear classifier, on generated and on recorded radar maps.

    python -m studies.radar --workdir=runs/radar --out=docs/results/radar
    python -m studies.radar --workdir=runs/radar --only='^radar_har-(lh_vit|vit)' --seeds=1
    python -m studies.radar --workdir=runs/radar --report_only

A run is `configs/lh_vit.py` with a model, data, a fold of the recording, and a seed; its folder is named like
``radar_har-lh_vit-seed0`` or ``radar_parrad-vit-fold3-seed0``. Evaluated is the best checkpoint, on the test set or the
fold; the five folds of a seed make one figure, for every event is in one of them.

How runs are chosen, gone on with and reported: `lwt/report/study.py`. The report holds all runs of the workdir that
have figures, whatever the flags; it reads the data, for the linear classifier and for the pictures.
"""

import csv
import functools
import glob
import os

from absl import flags

from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import plots, study
from lwt.runs import config_file, experiment
from studies.radar import report as radar_report

CONFIG = "configs/lh_vit.py"
RECORD = os.path.join("eval", "radar_study.json")


def entries(*, seeds=1, smoke=False):
    """The runs of the study, seed by seed.

    Args:
        seeds: runs of every setting.
        smoke: two steps of a tiny model each.
    """
    config = config_file.module(CONFIG)
    found = []
    for seed in range(seeds):
        for data in config.DATA:
            for model in config.MODELS:
                for fold in range(config.FOLDS) if data == "radar_parrad" else [None]:
                    own = dict(model=model, data=data) | ({} if fold is None else dict(fold=fold)) | dict(seed=seed)
                    name = "-".join([data, model, *(f"{key}{own[key]}" for key in ("fold", "seed") if key in own)])
                    found.append(study.Entry(name, own, study.spec_of(CONFIG, own, "smoke=true" if smoke else "")))
    return found


def run(entry, workdir):
    """Trains, goes on with, or leaves alone the run of `entry`; measures it once; returns its record."""
    return study.run(entry, workdir, measure, record=RECORD)


def measure(entry, folder):
    """What is kept of a run: its answers to the test set, its size and its time."""
    del entry
    opened = experiment.load(folder)
    figures = opened.report()
    return {
        "epochs": opened.config.epochs,
        "checkpoint": opened.step,
        "figures": figures,
        "classes": list(opened.labels),
        "answers": answers_of(folder),
        "parameters": cost.parameters(opened.config, outputs=len(opened.labels))["total"],
        "curve": plots.read(folder, "validation/accuracy"),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def answers_of(folder):
    """``[[label, answer], ...]`` of the test set, as the evaluation of the run wrote them."""
    (path,) = glob.glob(os.path.join(folder, "eval", "*.tsv"))
    with open(path, newline="") as file:
        return [row[:2] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


def main():
    """The program."""
    values = flags.FLAGS
    chosen = study.choose(entries(seeds=values.seeds, smoke=values.smoke), only=values.only, index=values.index)
    study.main(chosen, functools.partial(run, workdir=values.workdir), radar_report.write, record=RECORD)
