"""Do convolutions help a small Vision Transformer? Three stems, one encoder, on CIFAR-10.

    python -m studies.lighter.stems --workdir=runs/stems --out=docs/results/stems
    python -m studies.lighter.stems --workdir=runs/stems --only='(search-|)patches' --seeds=1
    python -m studies.lighter.stems --workdir=runs/stems --report_only

"Lightweight Transformers" says that convolutions make small ViTs more accurate. A run is `configs/vit.py:size=cct2`,
whose encoder of width 128 reads 8 × 8 tokens, with one of `MODELS`: a stem and a number of layers. Patches with more
layers are there for comparison at no fewer weights, and at no fewer operations, than the largest convolutional stem.
All runs train for `EPOCHS` epochs. Every model gets the same search of three rates. How rates are searched, and runs
are chosen, resumed and reported: `lwt/report/searched.py`.
"""

import os
import statistics

from lwt import trees
from lwt.inspect import cost
from lwt.report import pages, plots, results, searched, study
from lwt.runs import config_file, experiment

CONFIG = "configs/vit.py"
RECORD = os.path.join("eval", "stems_study.json")
EPOCHS = 8.0
FIRST = (2.5e-4, 1e-3, 4e-3)  # rates of the search
MODELS = {  # name -> stem, layers, title
    "patches2": ("patches", 2, "patches, 2 layers"),
    "patches3": ("patches", 3, "patches, 3 layers"),
    "patches5": ("patches", 5, "patches, 5 layers"),
    "conv2": ("conv", 2, "two strided convolutions, 2 layers"),
    "pooled2": ("pooled", 2, "two convolutions with pooling, 2 layers"),
}
HOW_TO_READ = f"""\
Accuracy is of the test set, mean ± standard deviation over the seeds. Operations are those of a forward and backward
pass of an image. All models train for {EPOCHS:g} epochs, far from convergence. Each rate is the best of three on the
validation set, with seed 0 and half of the training.
"""


def entries(*, seeds=3, smoke=False):
    """The searches, and the runs seed by seed.

    Args:
        seeds: runs of every model.
        smoke: whether to train tiny models for two steps each.
    """
    return searched.entries([dict(model=name) for name in MODELS], of=spec_of, seeds=seeds, smoke=smoke)


def spec_of(arguments, seed):
    """``FILE.py:key=value,...`` of a run, the same for all models."""
    del arguments
    return study.spec_of(CONFIG, dict(size="cct2", precision="float32", epochs=EPOCHS, seed=seed))


def config_of(entry):
    """The config of a run, or of a trial of a search."""
    config, (stem, layers, _) = config_file.load(entry.spec), MODELS[entry.arguments["model"]]
    with config.unlocked():
        config.model.update(stem=stem, layers=layers)
    return searched.shortened(config, entry)


def run(entry, workdir, *, known):
    """Trains or resumes a run, or searches a rate, unless that is done; returns the record; see `searched.run`."""
    given = dict(rates=FIRST, record=RECORD, config_of=config_of, measure=measure, metric="accuracy")
    return searched.run(entry, workdir, known=known, **given)


def measure(entry, folder):
    """The record of a run: figures on the test set, weights, and operations of an image."""
    del entry
    trained = experiment.load(folder)
    counted = cost.measure(trained.config, rows=trained.config.data.rows, row_length=1)
    flops = counted["flops_per_example"]["forward_backward"]
    return searched.facts(trained, folder) | {"parameters": trees.count(trained.weights), "flops": flops}


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and stems.png into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Convolutions before a small Vision Transformer", command_line=command_line)
    runs, searches = searched.parted(records)
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(pages.effort(runs) + ".")
    groups = searched.grouped(runs, order=MODELS, by="model")
    if groups:
        draw(page.picture("stems.png", "accuracy, weights and operations of each model"), groups)
        page.add(table(groups))
    if searches:
        labels = {"model": lambda record: MODELS[record["arguments"]["model"]][2]}
        page.add("## Searches", searched.about(searches), searched.table(searches, labels=labels))
    return page.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: accuracy, weights and operations of a run."""
    fixed = results.of_run(record, command_line=command_line)
    values = {"accuracy": record["figures"]["accuracy"]} | {key: record[key] for key in ("parameters", "flops")}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def table(groups):
    """The Markdown table: a line for each model."""
    body = []
    for name, own in groups.items():
        cells = [f"{own[0]['parameters']:,}", f"{own[0]['flops'] / 1e6:.0f}", f"{own[0]['rate']:g}"]
        body.append([MODELS[name][2], results.Cell.of(searched.accuracies(own)).text(2), *cells])
    return results.markdown(["model", "accuracy (%)", "weights", "MFLOP", "rate"], body)


def draw(path, groups):
    """A line for each model: accuracy, weights and operations."""
    lines = {
        MODELS[name][2]: {
            "quality": searched.accuracies(own), "size": own[0]["parameters"] / 1e3, "operations": own[0]["flops"] / 1e6
        }
        for name, own in groups.items()
    }  # fmt: skip
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {
        "quality": ("accuracy (%), test", 1),
        "size": ("thousand weights", 0),
        "operations": ("MFLOP, one image", 0),
    }
    plots.rows(lines, path, columns=columns, dots=("quality",), title=f"CIFAR-10: the most accurate has {best}")


def main():
    """The program."""
    searched.main(entries, run, write=write, record=RECORD, config=config_of)


if __name__ == "__main__":
    searched.start(main)
