"""Compares ways of sharing weights between layers: EmbBERT on two sets of texts, from scratch.

    python -m studies.vertical.sharing --workdir=runs/sharing --out=docs/results/sharing
    python -m studies.vertical.sharing --workdir=runs/sharing --only=snips --seeds=1
    python -m studies.vertical.sharing --workdir=runs/sharing --report_only

A run is `configs/embbert_finetune.py:recipe=tuned,tables=small` with one of `MODELS`. All but two kinds start from
scratch. Relaxed recursive transformers (Bae et al. 2024) start from the whole model of the same seed and learn from its
outputs, too; "whole, trained again" is the whole model with the same head start. Every kind and rank gets the same
search of three rates. How rates are searched, and runs are chosen, resumed and reported: `lwt/report/searched.py`.
"""

import dataclasses
import functools
import itertools
import os
import statistics

from absl import flags

from lwt import trees
from lwt.report import pages, plots, results, searched, study
from lwt.runs import config_file, experiment

CONFIG = "configs/embbert_finetune.py"
RECORD = os.path.join("eval", "sharing_study.json")
TASKS = {"snips": "Snips", "emotion": "Emotion"}
EPOCHS, CHUNKS = 6.0, 2
FIRST = (5e-4, 2e-3, 8e-3)  # rates of the search
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
    return searched.entries(models, of=spec_of, seeds=seeds, smoke=smoke)


def spec_of(arguments, seed):
    """``FILE.py:key=value,...`` of a run, the same for all models of a task."""
    return study.spec_of(CONFIG, dict(task=arguments["task"], recipe="tuned", tables="small", epochs=EPOCHS, seed=seed))


def whole_of(entry):
    """The name of the run that a taught model starts from."""
    return searched.name_of(dict(task=entry.arguments["task"], model=WHOLE, seed=entry.arguments.get("seed", 0)))


def config_of(entry, *, workdir):
    """The config of a run, or of a trial of a search."""
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
    return searched.shortened(config, entry)


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record; see `searched.run`.

    Before a taught model, the whole model that it starts from is trained.
    """
    if MODELS[entry.arguments["model"]].taught:
        run(known[whole_of(entry)], workdir, known=known)
    configured = functools.partial(config_of, workdir=workdir)
    given = dict(rates=FIRST, record=RECORD, config_of=configured, measure=measure, metric="mcc")
    return searched.run(entry, workdir, known=known, **given)


def measure(entry, folder):
    """The record of a run: figures on the test set, and the number of weights that are stored."""
    del entry
    trained = experiment.load(folder)
    return searched.facts(trained, folder) | {"parameters": sum(map(trees.count, trained.stored()))}


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and a picture of each task into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Sharing weights between layers", command_line=command_line)
    runs, searches = searched.parted(records)
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(pages.effort(runs) + ".")
    for task, title in TASKS.items():
        groups = searched.grouped(runs, order=MODELS, by="model", task=task)
        if groups:
            page.add(f"## {title}", table(groups), searched.error_of([*itertools.chain(*groups.values())]))
            draw(page.picture(f"{task}.png", f"accuracy and weights of each model, {title}"), groups, title=title)
    if searches:
        labels = {"task": lambda record: TASKS[record["arguments"]["task"]]} if len(TASKS) > 1 else {}
        labels["model"] = lambda record: MODELS[record["arguments"]["model"]].title
        page.add("## Searches", searched.about(searches), searched.table(searches, labels=labels))
    return page.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: accuracy and number of weights of a run."""
    fixed = results.of_run(record, command_line=command_line)
    values = {"accuracy": record["figures"]["accuracy"], "parameters": record["parameters"]}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def table(groups):
    """The Markdown table of a task: a line for each model, with its share of the whole model's weights."""
    whole, body = groups.get(WHOLE), []
    for name, own in groups.items():
        stored = own[0]["parameters"]
        share = results.percent([stored / whole[0]["parameters"]]) if whole else "–"
        quality = results.Cell.of(searched.accuracies(own)).text(2)
        body.append([MODELS[name].title, quality, f"{stored:,}", share, f"{own[0]['rate']:g}"])
    return results.markdown(["model", "accuracy (%)", "weights", "share (%)", "rate"], body)


def draw(path, groups, *, title):
    """A line for each model of a task: accuracy and weights."""
    lines = {
        MODELS[name].title: {"quality": searched.accuracies(own), "size": own[0]["parameters"] / 1e3}
        for name, own in groups.items()
    }
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {"quality": ("accuracy (%), test", 1), "size": ("thousand weights", 0)}
    head = f"{title}: {best} scores highest (n={len(lines[best]['quality'])})"
    plots.rows(lines, path, columns=columns, dots=("quality",), title=head)


def main():
    """The program."""
    configured = functools.partial(config_of, workdir=flags.FLAGS.workdir)
    searched.main(entries, run, write=write, record=RECORD, config=configured)


if __name__ == "__main__":
    searched.start(main)
