"""Compares initial weights of the text models: how large the tables of tokens and of positions are at the start.

    python -m studies.embbert.initial --workdir=runs/initial --out=docs/results/initial_weights
    python -m studies.embbert.initial --workdir=runs/initial --only='bert_2mb|embbert' --seeds=1
    python -m studies.embbert.initial --workdir=runs/initial --report_only

EmbBERT-Q's code draws all tables with a standard deviation of 1. A run is `configs/embbert_finetune.py:recipe=tuned`
without pre-training, with one of `INITIAL`. Every model gets the same search for every kind of initial weights
(`lwt/report/search.py`): three rates, seed 0, half of the training, judged on the validation set.

How runs are chosen, resumed and reported: `lwt/report/study.py`.
"""

import functools
import os
import statistics

from absl import flags

from lwt.machine import hardware
from lwt.report import pages, plots, results, search, study
from lwt.runs import config_file, experiment
from studies.embbert import paper

CONFIG = "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "initial_study.json")
TASKS = {"emotion": "Emotion", "snips": "Snips"}
MODELS = ("bert_2mb", "embbert", "mamba_2mb", "embedder", "embedder_conv", "bert_ne", "bert_ea", "bert_ne_ea")
EPOCHS = 4.0
FIRST = (5e-4, 2e-3, 8e-3)  # rates of the search
INITIAL = {  # standard deviations of the token table, and of positions and segments
    "paper": ("1, 1", dict(embedding_std=1.0, position_std=1.0)),
    "positions": ("1, 0.05", dict(embedding_std=1.0, position_std=0.05)),
    "small": ("0.02, 0.02", dict(embedding_std=0.02, position_std=0.02)),
}
HOW_TO_READ = f"""\
A column is named by the standard deviations of the initial tables: of tokens, and of positions and segments. The
paper's code has 1 for all, BERT 0.02. Nothing is pre-trained. EmbBERT's convolutions start as in the tuned recipe
(`conv_start="present"`), whatever the tables.

Accuracy (%) is of the test set: mean ± standard deviation over the seeds. All models train for {EPOCHS:g} epochs. Each
rate is the best of three on the validation set, with seed 0 and half of the training.
"""


def entries(*, seeds=3, smoke=False):
    """The searches, and the runs seed by seed.

    Args:
        seeds: runs of every model and kind of initial weights.
        smoke: whether to train tiny models for two steps each.
    """
    kinds = [dict(task=task, model=model, initial=kind) for task in TASKS for model in MODELS for kind in INITIAL]
    rows = [row | dict(stage="search") for row in kinds]
    rows += [row | dict(seed=seed) for seed in range(seeds) for row in kinds]
    return [_entry(row, smoke=smoke) for row in rows]


def _entry(arguments, *, smoke):
    own = {key: arguments[key] for key in ("model", "task")}
    own |= dict(recipe="tuned", epochs=EPOCHS, seed=arguments.get("seed", 0))
    return study.Entry(name_of(arguments), arguments, study.spec_of(CONFIG, own, more="smoke=true" if smoke else ""))


def name_of(arguments):
    """``emotion-embbert-small-seed0``, or ``search-emotion-embbert-small``."""
    name = "-".join(arguments[key] for key in ("task", "model", "initial"))
    return f"search-{name}" if "stage" in arguments else f"{name}-seed{arguments['seed']}"


def config_of(entry):
    """The config of a run, or of a trial of a search, which is half as long."""
    config = config_file.load(entry.spec)
    with config.unlocked():
        config.model.update(INITIAL[entry.arguments["initial"]][1])
        if "stage" in entry.arguments and "smoke" not in entry.spec:
            config.epochs /= 2
    return config


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record.

    Args:
        entry: one of `entries`.
        workdir: of the study.
        known: all entries by name; a run takes the rate that its search finds.
    """
    if "stage" in entry.arguments:
        return search_rate(entry, workdir)
    searched = {key: entry.arguments[key] for key in ("task", "model", "initial")} | {"stage": "search"}
    own = search.at_best(entry, search_rate(known[name_of(searched)], workdir))
    return study.run(own, workdir, measure=measure, record=RECORD, config=config_of(own))


def search_rate(entry, workdir):
    """The record of a search; see `lwt.report.search.of_rates`."""
    return search.of_rates(entry, workdir, rates=FIRST, record=RECORD, config_of=config_of, metric="mcc")


def measure(entry, folder):
    """The record of a run: its figures on the test set."""
    del entry
    trained = experiment.load(folder)
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "rate": trained.config.optimizer.learning_rate,
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and a picture of each task into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Initial weights of text models", command_line=command_line)
    runs = [record for record in records.values() if "stage" not in record["arguments"]]
    searched = [record for record in records.values() if "stage" in record["arguments"]]
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(f"{len(runs)} runs, {pages.hours(runs)} in all on {pages.machines(runs)}.")
    for task, title in TASKS.items():
        groups = grouped(runs, task=task)
        if groups:
            draw(page.picture(f"{task}.png", f"accuracy by initial weights, {title}"), groups, title=title)
            page.add(f"## {title}", table(groups))
        own = [record for record in searched if record["arguments"]["task"] == task]
        if own:
            page.add("MCC (%) on the validation set after half of the training, by rate:", searches(own))
    return page.write()


def rows_of(record, *, command_line):
    """The row for ``results.json``: the accuracy of a run."""
    fixed = results.of_run(record, command_line=command_line)
    return [fixed | {"metric": "accuracy", "value": record["figures"]["accuracy"]}]


def grouped(runs, *, task):
    """``{model: {kind of initial weights: runs}}`` of a task, in the order of `MODELS`, `INITIAL` and the seeds."""
    found = {}
    for model in MODELS:
        for kind in INITIAL:
            one = dict(task=task, model=model, initial=kind)
            own = [record for record in runs if one.items() <= record["arguments"].items()]
            if own:
                found.setdefault(model, {})[kind] = sorted(own, key=lambda record: record["arguments"]["seed"])
    return found


def accuracies(runs):
    """The accuracy of each run in per cent."""
    return [100 * record["figures"]["accuracy"] for record in runs]


def table(groups):
    """The Markdown table of a task: a line for each model, and the accuracy for each kind of initial weights."""
    body = []
    for model, kinds in groups.items():
        cells = [results.Cell.of(accuracies(kinds[kind])).text(2) if kind in kinds else "–" for kind in INITIAL]
        body.append([paper.MODELS[model], *cells])
    return results.markdown(["model", *(title for title, _ in INITIAL.values())], body)


def searches(records):
    """The Markdown table of a task's searches: the score at every rate."""
    body = []
    for record in records:
        model, kind = (record["arguments"][key] for key in ("model", "initial"))
        cells = [f"{100 * trial['mcc']:.1f}" if "mcc" in trial else "diverged" for trial in record["tried"]]
        body.append([paper.MODELS[model], INITIAL[kind][0], *cells])
    return results.markdown(["model", "initial", *(f"{rate:g}" for rate in FIRST)], body)


def draw(path, groups, *, title):
    """A line for each model and kind of initial weights: the accuracy."""
    lines = {
        f"{paper.MODELS[model]}: {INITIAL[kind][0]}": {"quality": accuracies(own)}
        for model, kinds in groups.items()
        for kind, own in kinds.items()
    }
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {"quality": ("accuracy (%), test", 1)}
    plots.rows(lines, path, columns=columns, dots=("quality",), title=f"{title}: best is {best}")


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    chosen = study.choose(found, only=values.only, index=values.index)
    known = {entry.name: entry for entry in found}

    def in_order(out, records, **more):
        return write(out, {name: records[name] for name in known if name in records}, **more)

    given = dict(write=in_order, record=RECORD, known=found, config=config_of, expected=found)
    study.main(chosen, functools.partial(run, workdir=values.workdir, known=known), **given)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each, to check that everything runs.")
    study.start(main)
