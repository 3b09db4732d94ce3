"""Compares LH-ViT with a ViT of equal size, CNNs and a linear classifier, on generated and on recorded radar maps.

    python -m studies.radar --workdir=runs/radar --out=docs/results/radar
    python -m studies.radar --workdir=runs/radar --only='^radar_har-(lh_vit|vit)' --seeds=1
    python -m studies.radar --workdir=runs/radar --report_only

A run is `configs/lh_vit.py` with a model, data, a fold of the recording, and a seed. Its folder has a name like
``radar_har-lh_vit-seed0`` or ``radar_parrad-vit-fold3-seed0``. The best checkpoint is evaluated on the test set or the
fold. The five folds of a seed make one figure, because each event is in exactly one of them.

How runs are chosen, resumed and reported: `lwt/report/study.py`. The page holds all runs of the workdir that have a
record, whatever the flags. Pictures of maps are drawn from the data if the page's folder lacks them.
"""

import csv
import glob
import os

from absl import flags

from lwt.export import quantize
from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import plots, study
from lwt.runs import config_file, experiment
from studies.radar import linear_classifier
from studies.radar import report as radar_report

CONFIG = "configs/lh_vit.py"
ARTEFACT = os.path.join("export", "int8.safetensors")
RECORD = os.path.join("eval", "radar_study.json")


def entries(*, seeds=1, smoke=False):
    """The runs of the study, seed by seed, and a linear classifier of each set of data.

    Args:
        seeds: runs of every setting.
        smoke: whether to train tiny models for two steps each.
    """
    config = config_file.module(CONFIG)
    found = []
    for seed in range(seeds):
        for data in config.DATA:
            for model in config.MODELS:
                for fold in range(config.FOLDS) if data == "radar_parrad" else [None]:
                    own = dict(model=model, data=data) | ({} if fold is None else dict(fold=fold)) | dict(seed=seed)
                    name = "-".join([data, model, *(f"{key}{own[key]}" for key in ("fold", "seed") if key in own)])
                    found.append(study.Entry(name, own, study.spec_of(CONFIG, own, more="smoke=true" if smoke else "")))
    linear = radar_report.LINEAR
    return found + [study.Entry(f"{data}-{linear}", dict(data=data, model=linear), "") for data in config.DATA]


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record."""
    if entry.arguments["model"] == radar_report.LINEAR:
        folder = os.path.join(workdir, entry.name)
        found, data = study.read_record(folder, RECORD), radar_report.SETS[entry.arguments["data"]][1]
        if not found or found["figures"]["data"] != data:
            found = {"arguments": entry.arguments, "figures": linear_classifier.of_images(data)}
            study.write_record(folder, found, record=RECORD)
        return found
    return study.run(entry, workdir, measure=measure, record=RECORD)


def measure(entry, folder):
    """The record of a run: its answers on the test set, its size and its time."""
    del entry
    trained = experiment.load(folder)
    path = os.path.join(folder, ARTEFACT)
    size = quantize.export(trained, path)
    int8 = {"bytes": size, "accuracy": trained.with_file(path).report()["accuracy"]}
    figures = trained.report()
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": figures,
        "int8": int8,
        "classes": list(trained.labels),
        "answers": answers_of(folder),
        "parameters": cost.parameters(trained.config, outputs=len(trained.labels))["total"],
        "curve": plots.read(folder, "validation/accuracy"),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def answers_of(folder):
    """``[[label, answer], ...]`` of the test set, from the file that the run's evaluation wrote."""
    found = glob.glob(os.path.join(folder, "eval", "*.tsv"))
    (path,) = (path for path in found if "weights=" not in os.path.basename(path))
    with open(path, newline="") as file:
        return [row[:2] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    study.main(found, run, write=radar_report.write, record=RECORD)
