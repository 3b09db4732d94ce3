"""Compares ways of sharing weights between layers: EmbBERT on two sets of texts, from scratch.

    python -m studies.vertical.sharing --workdir=runs/sharing --out=docs/results/sharing
    python -m studies.vertical.sharing --workdir=runs/sharing --only=snips --seeds=1
    python -m studies.vertical.sharing --workdir=runs/sharing --report_only

A run is `configs/embbert_finetune.py:recipe=tuned` with one of `MODELS`. All but two kinds start from scratch. Relaxed
recursive transformers (Bae et al. 2024) start from the whole model of the same seed and learn from its outputs, too;
"whole, trained again" is the whole model with the same head start. Every kind and rank gets the same search of the
learning rate (`lwt/report/search.py`): three rates, seed 0, half of the training, judged on the validation set.

How runs are chosen, resumed and reported: `lwt/report/study.py`.
"""

import dataclasses
import functools
import os
import statistics

from absl import flags

from lwt import trees
from lwt.machine import hardware
from lwt.report import pages, plots, results, search, study
from lwt.runs import config_file, experiment

CONFIG = "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "sharing_study.json")
TASKS = {"snips": "Snips", "emotion": "Emotion"}
EPOCHS, CHUNKS = 6.0, 2
FIRST = (1e-3, 4e-3, 1.6e-2)  # rates of the search
RANKS = (8, 2)
WHOLE = "whole"


@dataclasses.dataclass(frozen=True)
class Model:
    """A way of sharing weights.

    Attributes:
        title: for readers.
        reparam: the section of the config; {} for none.
        layers: of the model; 0 for its own number.
        taught: whether it starts from the whole model of its seed and learns from that.
    """

    title: str
    reparam: dict = dataclasses.field(default_factory=dict)
    layers: int = 0
    taught: bool = False


def _vertical(rank, mode, **more):
    return dict(name="vertical", chunks=CHUNKS, rank=rank, mode=mode, **more)


MODELS = {
    WHOLE: Model("whole"),
    "half": Model("half of the layers", layers=2),
    "shared": Model("shared layers", dict(name="share", chunks=CHUNKS)),
    **{f"recursive-r{r}": Model(f"recursive, rank {r}", _vertical(r, "recursive")) for r in RANKS},
    **{f"base-r{r}": Model(f"base, rank {r}", _vertical(r, "base")) for r in RANKS},
    **{f"lors-r{r}": Model(f"LORS, rank {r}", _vertical(r, "lors")) for r in RANKS},
    "again": Model("whole, trained again", taught=True),
    **{f"relaxed-r{r}": Model(f"relaxed, rank {r}", _vertical(r, "lors", start="average"), taught=True) for r in RANKS},
}
HOW_TO_READ = f"""\
Four layers form two chunks of two. "Shared" layers have the matrices of their chunk's first layer (as in ALBERT).
"Recursive" and "base" are Vertical LoRA: an increment on the layer before, or on the chunk's first one. "LORS" adds an
increment to a shared matrix in every layer. "Relaxed" is LORS that starts from the whole model, by averages and SVD,
and learns from the whole model's outputs as well as from the labels.

Accuracy is of the test set: mean ± standard deviation over the seeds. All models train for {EPOCHS:g} epochs; "relaxed"
and "whole, trained again" have those of the whole model in addition. Each rate is the best of three on the validation
set, with seed 0 and half of the training.
"""


def entries(*, seeds=3, smoke=False):
    """The searches, and the runs seed by seed.

    Args:
        seeds: runs of every model.
        smoke: whether to train tiny models for two steps each.
    """
    models = [dict(task=task, model=name) for task in TASKS for name in MODELS]
    rows = [row | dict(stage="search") for row in models]
    rows += [row | dict(seed=seed) for seed in range(seeds) for row in models]
    return [_entry(row, smoke=smoke) for row in rows]


def _entry(arguments, *, smoke):
    own = dict(task=arguments["task"], recipe="tuned", epochs=EPOCHS, seed=arguments.get("seed", 0))
    more = "smoke=true" if smoke else ""
    return study.Entry(name_of(arguments), arguments, study.spec_of(CONFIG, own, more=more))


def name_of(arguments):
    """``snips-shared-seed0``, or ``search-snips-shared``."""
    task, model = arguments["task"], arguments["model"]
    return f"search-{task}-{model}" if "stage" in arguments else f"{task}-{model}-seed{arguments['seed']}"


def whole_of(entry):
    """The name of the run that a taught model starts from."""
    return name_of(dict(task=entry.arguments["task"], model=WHOLE, seed=entry.arguments.get("seed", 0)))


def config_of(entry, *, workdir):
    """The config of a run, or of a trial of a search, which is half as long."""
    config, model = config_file.load(entry.spec), MODELS[entry.arguments["model"]]
    with config.unlocked():
        if model.layers:
            config.model.layers = model.layers
        if model.reparam:
            config.reparam = dict(model.reparam)
        if model.taught:
            whole = os.path.join(workdir, whole_of(entry))
            config.init_from, config.init_checkpoint, config.init_skip = whole, "best", ()
            config.task = dict(name="distill", task=config.task.to_dict(), teacher=whole, cache=False)
        if "stage" in entry.arguments and "smoke" not in entry.spec:
            config.epochs /= 2
    return config


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record.

    Args:
        entry: one of `entries`.
        workdir: of the study.
        known: all entries by name; a run takes the rate that its search finds, and a taught model its whole one.
    """
    if MODELS[entry.arguments["model"]].taught:
        run(known[whole_of(entry)], workdir, known=known)
    if "stage" in entry.arguments:
        return search_rate(entry, workdir)
    found = search_rate(known[name_of(dict(entry.arguments, stage="search"))], workdir)
    own = search.at_best(entry, found)
    return study.run(own, workdir, measure=measure, record=RECORD, config=config_of(own, workdir=workdir))


def search_rate(entry, workdir):
    """The record of a search; see `lwt.report.search.of_rates`."""
    configured = functools.partial(config_of, workdir=workdir)
    return search.of_rates(entry, workdir, rates=FIRST, record=RECORD, config_of=configured, metric="mcc")


def measure(entry, folder):
    """The record of a run: figures on the test set, and the number of weights that are stored."""
    del entry
    trained = experiment.load(folder)
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "rate": trained.config.optimizer.learning_rate,
        "parameters": sum(map(trees.count, trained.stored())),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and a picture of each task into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Sharing weights between layers", command_line=command_line)
    runs = [record for record in records.values() if "stage" not in record["arguments"]]
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(f"{len(runs)} runs, {pages.hours(runs)} in all on {pages.machines(runs)}.")
    for task, title in TASKS.items():
        groups = grouped(runs, task=task)
        if groups:
            page.add(f"## {title}", table(groups))
            draw(page.picture(f"{task}.png", f"accuracy and weights of each model, {title}"), groups, title=title)
    return page.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: accuracy and number of weights of a run."""
    fixed = results.of_run(record, command_line=command_line)
    values = {"accuracy": record["figures"]["accuracy"], "parameters": record["parameters"]}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def grouped(runs, *, task):
    """``{model: runs}`` of a task, in the order of `MODELS` and of the seeds."""
    ordered = sorted(runs, key=lambda record: record["arguments"]["seed"])
    own = [record for record in ordered if record["arguments"]["task"] == task]
    found = {name: [record for record in own if record["arguments"]["model"] == name] for name in MODELS}
    return {name: runs for name, runs in found.items() if runs}


def accuracies(runs):
    """The accuracy of each run in per cent."""
    return [100 * record["figures"]["accuracy"] for record in runs]


def table(groups):
    """The Markdown table of a task: a line for each model, with its share of the whole model's weights."""
    whole, body = groups.get(WHOLE), []
    for name, own in groups.items():
        stored = own[0]["parameters"]
        share = results.percent([stored / whole[0]["parameters"]]) if whole else "–"
        quality = results.Cell.of(accuracies(own)).text(2)
        body.append([MODELS[name].title, quality, f"{stored:,}", share, f"{own[0]['rate']:g}"])
    return results.markdown(["model", "accuracy (%)", "weights", "share", "rate"], body)


def draw(path, groups, *, title):
    """A line for each model of a task: accuracy and weights."""
    lines = {
        MODELS[name].title: {"quality": accuracies(own), "size": own[0]["parameters"] / 1e3}
        for name, own in groups.items()
    }
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {"quality": ("accuracy (%), test", 1), "size": ("thousand weights", 0)}
    plots.rows(lines, path, columns=columns, dots=("quality",), title=f"{title}: {best} is the most accurate")


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    chosen = study.choose(found, only=values.only, index=values.index)
    known = {entry.name: entry for entry in found}
    study.main(
        chosen,
        functools.partial(run, workdir=values.workdir, known=known),
        write=write,
        record=RECORD,
        known=found,
        config=functools.partial(config_of, workdir=values.workdir),
        expected=found,
    )


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each, to check that everything runs.")
    study.start(main)
