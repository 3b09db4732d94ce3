"""Do convolutions help a small Vision Transformer? Three stems, one encoder, on CIFAR-10.

    python -m studies.lighter.stems --workdir=runs/stems --out=docs/results/stems
    python -m studies.lighter.stems --workdir=runs/stems --only='(search-|)patches' --seeds=1
    python -m studies.lighter.stems --workdir=runs/stems --report_only

"Lightweight Transformers" says that convolutions make small ViTs more accurate. A run is `configs/vit.py:size=cct2`,
whose encoder of width 128 reads 8 × 8 tokens, with one of `MODELS`: a stem and a number of layers. Patches with more
layers are there for comparison at no fewer weights, and at no fewer operations, than the largest convolutional stem.
All runs train for `EPOCHS` epochs. A model's rate is searched (`lwt/report/search.py`): three rates, seed 0, half of
the training, judged by the accuracy on the validation set.

How runs are chosen, resumed and reported: `lwt/report/study.py`.
"""

import functools
import os
import statistics

from absl import flags

from lwt import trees
from lwt.inspect import cost
from lwt.machine import hardware
from lwt.report import pages, plots, results, search, study
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
    rows = [dict(model=name, stage="search") for name in MODELS]
    rows += [dict(model=name, seed=seed) for seed in range(seeds) for name in MODELS]
    own = dict(size="cct2", precision="float32", epochs=EPOCHS)
    return [
        study.Entry(
            name_of(row),
            row,
            study.spec_of(CONFIG, own | dict(seed=row.get("seed", 0)), more="smoke=true" if smoke else ""),
        )
        for row in rows
    ]


def name_of(arguments):
    """``patches2-seed0``, or ``search-patches2``."""
    model = arguments["model"]
    return f"search-{model}" if "stage" in arguments else f"{model}-seed{arguments['seed']}"


def config_of(entry):
    """The config of a run, or of a trial of a search, which is half as long."""
    config, (stem, layers, _) = config_file.load(entry.spec), MODELS[entry.arguments["model"]]
    with config.unlocked():
        config.model.update(stem=stem, layers=layers)
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
    found = search_rate(known[name_of(dict(model=entry.arguments["model"], stage="search"))], workdir)
    own = search.at_best(entry, found)
    return study.run(own, workdir, measure=measure, record=RECORD, config=config_of(own))


def search_rate(entry, workdir):
    """The record of a search; see `lwt.report.search.of_rates`."""
    return search.of_rates(entry, workdir, rates=FIRST, record=RECORD, config_of=config_of, metric="accuracy")


def measure(entry, folder):
    """The record of a run: figures on the test set, weights, and operations of an image."""
    del entry
    trained = experiment.load(folder)
    counted = cost.measure(trained.config, rows=trained.config.data.rows, row_length=1)
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "rate": trained.config.optimizer.learning_rate,
        "parameters": trees.count(trained.weights),
        "flops": counted["flops_per_example"]["forward_backward"],
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and stems.png into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Convolutions before a small Vision Transformer", command_line=command_line)
    runs = [record for record in records.values() if "stage" not in record["arguments"]]
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(f"{len(runs)} runs, {pages.hours(runs)} in all on {pages.machines(runs)}.")
    groups = grouped(runs)
    if groups:
        draw(page.picture("stems.png", "accuracy, weights and operations of each model"), groups)
        page.add(table(groups))
    found = [record for record in records.values() if "stage" in record["arguments"]]
    if found:
        page.add(
            "## Searches", "Accuracy (%) on the validation set after half of the training, by rate.", searches(found)
        )
    return page.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: accuracy, weights and operations of a run."""
    fixed = results.of_run(record, command_line=command_line)
    values = {"accuracy": record["figures"]["accuracy"]} | {key: record[key] for key in ("parameters", "flops")}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def grouped(runs):
    """``{model: runs}``, in the order of `MODELS` and of the seeds."""
    ordered = sorted(runs, key=lambda record: record["arguments"]["seed"])
    found = {name: [record for record in ordered if record["arguments"]["model"] == name] for name in MODELS}
    return {name: own for name, own in found.items() if own}


def accuracies(runs):
    """The accuracy of each run in per cent."""
    return [100 * record["figures"]["accuracy"] for record in runs]


def table(groups):
    """The Markdown table: a line for each model."""
    body = []
    for name, own in groups.items():
        cells = [f"{own[0]['parameters']:,}", f"{own[0]['flops'] / 1e6:.0f}", f"{own[0]['rate']:g}"]
        body.append([MODELS[name][2], results.Cell.of(accuracies(own)).text(2), *cells])
    return results.markdown(["model", "accuracy (%)", "weights", "MFLOP", "rate"], body)


def searches(records):
    """The Markdown table of the searches: the accuracy at every rate."""
    tried = {record["arguments"]["model"]: record["tried"] for record in records}
    rows = [[MODELS[name][2], *map(_accuracy, tried[name])] for name in MODELS if name in tried]
    return results.markdown(["model", *(f"{rate:g}" for rate in FIRST)], rows)


def _accuracy(trial):
    return f"{100 * trial['accuracy']:.1f}" if "accuracy" in trial else "diverged"


def draw(path, groups):
    """A line for each model: accuracy, weights and operations."""
    lines = {
        MODELS[name][2]: {
            "quality": accuracies(own), "size": own[0]["parameters"] / 1e3, "operations": own[0]["flops"] / 1e6
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
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    chosen = study.choose(found, only=values.only, index=values.index)
    known = {entry.name: entry for entry in found}
    given = dict(write=write, record=RECORD, known=found, config=config_of, expected=found)
    study.main(chosen, functools.partial(run, workdir=values.workdir, known=known), **given)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each, to check that everything runs.")
    study.start(main)
