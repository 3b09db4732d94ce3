"""Compares LH-ViT with a ViT of equal size, CNNs and a linear classifier, on generated and on recorded radar maps.

    python -m studies.radar --workdir=runs/radar --out=docs/results/radar
    python -m studies.radar --workdir=runs/radar --only='radar_har-(lh_vit|vit)' --seeds=1
    python -m studies.radar --workdir=runs/radar --report_only

A run is `configs/lh_vit.py` with a model, data, a fold of the recording, and a seed. Its folder has a name like
``radar_har-lh_vit-seed0`` or ``radar_parrad-vit-fold3-seed0``. All models train for as many epochs; the light CNN also
for three times as many. Every model gets the same search of the rate on generated maps (`lwt/report/searched.py`), and
takes its rate for the recording, too, which has no validation set.

The best checkpoint is evaluated on the test set or the fold. The five folds of a seed make one figure, because each
event is in exactly one of them. Pictures of maps are drawn from the data if the page's folder lacks them.
"""

import csv
import glob
import os

from lwt.export import quantize
from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import plots, search, searched, study
from lwt.runs import config_file, experiment
from studies.radar import linear_classifier
from studies.radar import report as radar_report

CONFIG = "configs/lh_vit.py"
ARTEFACT = os.path.join("export", "int8.safetensors")
RECORD = os.path.join("eval", "radar_study.json")
RATES, TRIALS = (5e-4, 2e-3, 8e-3), 4  # of the search; the fourth rate depends on the best of these three
GENERATED, RECORDED = "radar_har", "radar_parrad"
LONGER = dict(data=GENERATED, model="cnn_light", epochs=180)  # three times as many as the others
SEARCHING = 0.5  # of the epochs, for a rate that is tried


def entries(*, seeds=3, smoke=False):
    """The searches, the runs seed by seed, and a linear classifier of each set of data.

    Args:
        seeds: runs of every setting.
        smoke: whether to train tiny models for two steps each.
    """
    config = config_file.module(CONFIG)
    of = {model: dict(data=GENERATED, model=model) for model in config.MODELS}
    settings = [*of.values(), LONGER]
    settings += [dict(data=RECORDED, model=model, fold=fold) for model in of for fold in range(config.FOLDS)]
    rows = [searched.SEARCH | of[model] for model in of]
    rows += [setting | dict(seed=seed) for seed in range(seeds) for setting in settings]
    found = [study.Entry(searched.name_of(row), row, spec_of(row, smoke=smoke)) for row in rows]
    linear = [dict(data=data, model=radar_report.LINEAR) for data in config.DATA]
    return found + [study.Entry(searched.name_of(row), row, "") for row in linear]


def spec_of(arguments, *, smoke=False):
    """``FILE.py:key=value,...`` of a run or of a search, without its rate."""
    own = {key: value for key, value in arguments.items() if key != "stage"}
    own.setdefault("epochs", config_file.module(CONFIG).DATA[own["data"]]["epochs"])
    if searched.is_search(arguments):
        own["epochs"] *= SEARCHING
    return study.spec_of(CONFIG, own, more="smoke=true" if smoke else "")


def config_of(entry):
    """The config of a run; None of a linear classifier, which has none."""
    return config_file.load(entry.spec) if entry.spec else None


def run(entry, workdir, *, known):
    """Searches a rate, or trains or resumes a run at its model's rate, unless that is done; returns the record."""
    if entry.arguments["model"] == radar_report.LINEAR:
        folder = os.path.join(workdir, entry.name)
        found, data = study.read_record(folder, RECORD), radar_report.SETS[entry.arguments["data"]][1]
        if not found or found["figures"]["data"] != data:
            found = {"arguments": entry.arguments, "figures": linear_classifier.of_images(data)}
            study.write_record(folder, found, record=RECORD)
        return found
    wanted = searched.name_of(searched.SEARCH | dict(data=GENERATED, model=entry.arguments["model"]))
    given = dict(rates=RATES, trials=TRIALS, record=RECORD, config_of=config_of, metric="accuracy")
    found = search.of_rates(known[wanted], workdir, **given)
    if searched.is_search(entry.arguments):
        return found
    own = search.at_best(entry, found)
    return study.run(own, workdir, measure=measure, record=RECORD, config=config_of(own))


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
        "rate": trained.config.optimizer.learning_rate,
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
    searched.main(entries, run, write=radar_report.write, record=RECORD, config=config_of)
