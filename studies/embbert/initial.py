"""Compares initial weights of the text models: pre-trained ones, and random ones by the scale of their tables.

    python -m studies.embbert.initial --workdir=runs/initial --out=docs/results/initial_weights
    python -m studies.embbert.initial --workdir=runs/initial --only='bert_2mb|embbert' --seeds=1
    python -m studies.embbert.initial --workdir=runs/initial --report_only

EmbBERT-Q's code draws all tables with a standard deviation of 1. A run is `configs/embbert_finetune.py:recipe=tuned`
from random weights, with tables of one of the scales in `SCALES`, or from a bundle of `PRETRAINED`. Every model gets
the same search of the rate for every kind of initial weights. How rates are searched, and runs are chosen, resumed and
reported: `lwt/report/searched.py`.
"""

import os
import statistics

from lwt.report import pages, plots, results, searched, study
from lwt.runs import config_file, experiment
from studies.embbert import paper

CONFIG = "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "initial_study.json")
TASKS = {"emotion": "Emotion", "snips": "Snips"}
MODELS = ("bert_2mb", "embbert", "mamba_2mb", "embedder", "embedder_conv", "bert_ne", "bert_ea", "bert_ne_ea")
EPOCHS = 4.0
FIRST, TRIALS = (5e-4, 2e-3, 8e-3), 4  # rates that a search begins with, and how many it tries
SCALES = {  # standard deviations of the token table, and of positions and segments
    "paper": dict(embedding_std=1.0, position_std=1.0),
    "positions": dict(embedding_std=1.0, position_std=0.05),
    "small": dict(embedding_std=0.02, position_std=0.02),
}
PRETRAINED = {
    "pretrained": {
        "bert_2mb": "pretrained/bert-2mb-tinynlp",
        "embbert": "pretrained/embbert-tinynlp",
        "mamba_2mb": "pretrained/mamba-2mb-tinynlp",
    },
    "pretrained_small": {"embbert": "pretrained/embbert-small-tables"},
}
INITIAL = {  # the title of every kind
    "paper": "1, 1",
    "positions": "1, 0.05",
    "small": "0.02, 0.02",
    "pretrained": "pre-trained",
    "pretrained_small": "pre-trained from 0.02",
}
HOW_TO_READ = f"""\
A column is named by the standard deviations of the initial tables: of tokens, and of positions and segments. The
paper's code has 1 for all, BERT 0.02. EmbBERT's convolutions start as in the tuned recipe (`conv_start="present"`),
whatever the tables. The pre-trained weights are those of [pretrained/](../../../pretrained/README.md), from the texts
of all seven training sets; the paper does not pre-train Embedder and Embedder + conv.

Accuracy (%) is of the test set: mean ± standard deviation over the seeds. All models train for {EPOCHS:g} epochs. Each
rate is the best of {TRIALS} on the validation set, with seed 0 and half of the training: of
{", ".join(map(str, FIRST))} and one more. That lies a factor of 4 outside if the best so far is the lowest or
highest, and otherwise between the best and its better neighbour.
"""


def entries(*, seeds=3, smoke=False):
    """The searches, and the runs seed by seed.

    Args:
        seeds: runs of every model and kind of initial weights.
        smoke: whether to train tiny models for two steps each.
    """
    kinds = [
        dict(task=task, model=model, initial=kind)
        for task in TASKS
        for model in MODELS
        for kind in INITIAL
        if kind in SCALES or model in PRETRAINED[kind]
    ]
    return searched.entries(kinds, of=spec_of, seeds=seeds, smoke=smoke)


def spec_of(arguments, seed):
    """``FILE.py:key=value,...`` of a run, without the scale of its tables."""
    own = {key: arguments[key] for key in ("model", "task")}
    if arguments["initial"] in PRETRAINED:
        own["base"] = PRETRAINED[arguments["initial"]][arguments["model"]]
    return study.spec_of(CONFIG, own | dict(recipe="tuned", epochs=EPOCHS, seed=seed))


def config_of(entry):
    """The config of a run, or of a trial of a search."""
    config = config_file.load(entry.spec)
    with config.unlocked():
        config.model.update(SCALES.get(entry.arguments["initial"], {}))
    return searched.shortened(config, entry)


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record; see `searched.run`."""
    given = dict(rates=FIRST, trials=TRIALS, record=RECORD, config_of=config_of, measure=measure, metric="mcc")
    return searched.run(entry, workdir, known=known, **given)


def measure(entry, folder):
    """The record of a run: its figures on the test set."""
    del entry
    return searched.facts(experiment.load(folder), folder)


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and a picture of each task into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Initial weights of text models", command_line=command_line)
    runs, searches = searched.parted(records)
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(pages.effort(runs) + ".")
    for task, title in TASKS.items():
        groups = grouped(runs, task=task)
        if groups:
            draw(page.picture(f"{task}.png", f"accuracy by initial weights, {title}"), groups, title=title)
            page.add(f"## {title}", table(groups))
        own = [record for record in searches if record["arguments"]["task"] == task]
        if own:
            page.add(searched.about(own), rates(own))
    return page.write()


def rows_of(record, *, command_line):
    """The row for ``results.json``: the accuracy of a run."""
    fixed = results.of_run(record, command_line=command_line)
    return [fixed | {"metric": "accuracy", "value": record["figures"]["accuracy"]}]


def grouped(runs, *, task):
    """``{model: {kind of initial weights: runs}}`` of a task, in the order of `MODELS`, `INITIAL` and the seeds."""
    found = {model: searched.grouped(runs, order=INITIAL, by="initial", task=task, model=model) for model in MODELS}
    return {model: kinds for model, kinds in found.items() if kinds}


def table(groups):
    """The Markdown table of a task: a line for each model, and the accuracy for each kind of initial weights."""
    body = []
    for model, kinds in groups.items():
        cells = [
            results.Cell.of(searched.accuracies(kinds[kind])).text(2) if kind in kinds else "–" for kind in INITIAL
        ]
        body.append([paper.MODELS[model], *cells])
    return results.markdown(["model", *INITIAL.values()], body)


def rates(searches):
    """The Markdown table of a task's searches: the score at every rate."""
    labels = {
        "model": lambda record: paper.MODELS[record["arguments"]["model"]],
        "initial": lambda record: INITIAL[record["arguments"]["initial"]],
    }
    return searched.table(searches, labels=labels)


def draw(path, groups, *, title):
    """A line for each model and kind of initial weights: the accuracy."""
    lines = {
        f"{paper.MODELS[model]}: {INITIAL[kind]}": {"quality": searched.accuracies(own)}
        for model, kinds in groups.items()
        for kind, own in kinds.items()
    }
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {"quality": ("accuracy (%), test", 1)}
    plots.rows(lines, path, columns=columns, dots=("quality",), title=f"{title}: best is {best}")


def main():
    """The program."""
    searched.main(entries, run, write=write, record=RECORD, config=config_of)


if __name__ == "__main__":
    searched.start(main)
