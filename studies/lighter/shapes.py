"""Measures quality, time and memory for several numbers of layers, and of heads at equal width.

    python -m studies.lighter.shapes --workdir=runs/shapes --out=docs/results/shapes
    python -m studies.lighter.shapes --workdir=runs/shapes --only=^classification
    python -m studies.lighter.shapes --workdir=runs/shapes --only=^times
    python -m studies.lighter.shapes --workdir=runs/shapes --report_only

"Lightweight Transformers" proposes 4 to 8 layers. A run is a task of `configs/kv_projection.py` with softmax attention
and another number of layers or heads; all runs of a task train for the same steps. The rate of every shape is searched
(`lwt/report/search.py`): three rates, seed 0, half of the training, judged on the validation set. A translator with n
layers has n in the encoder and n in the decoder.

The runs ``times-TASK`` measure how long the models of seed 0 take, all in turn (`lwt/machine/latency.py`); nothing else
should run on the machine meanwhile. How runs are chosen, resumed and reported:
`lwt/report/study.py`.
"""

import functools
import os
import statistics

from absl import flags

from lwt import trees
from lwt.inspect import cost
from lwt.machine import hardware, latency
from lwt.report import pages, plots, results, search, study
from lwt.runs import config_file, experiment

CONFIG = "configs/kv_projection.py"
RECORD = os.path.join("eval", "shapes_study.json")
LAYERS, HEADS = (2, 4, 6, 8, 12), (1, 2, 4, 8, 16)
OWN_LAYERS, OWN_HEADS = 4, {"classification": 2, "translation": 4}
KEYS = {"classification": ("layers",), "translation": ("encoder_layers", "decoder_layers")}
TITLES = {"classification": "Emotion, a BERT of width 80", "translation": "Multi30k, a translator of width 128"}
FIRST = {"classification": (5e-4, 2e-3, 8e-3), "translation": (7.5e-4, 3e-3, 1.2e-2)}  # rates of the search
JUDGED = {"classification": "mcc", "translation": "loss"}  # what chooses a rate, on the validation set
SHOWN = {"classification": "accuracy", "translation": "bleu"}
ROW, BATCH = 32, 64  # positions of the rows that memory is counted for, and texts of a timed batch
HOW_TO_READ = f"""\
Quality is measured on the test set: mean ± standard deviation over the seeds. Memory is that of a training step as
compiled: weights, optimizer and arrays, for rows of {ROW} tokens. Times are medians for one text alone and for batches
of {BATCH}; a translation is greedy and goes on to the length limit. Rates are the best of three on the validation set,
each tried with seed 0 for half of the training.
"""


def shapes(task):
    """``[(layers, heads)]`` of a task: all numbers of layers, then all numbers of heads."""
    own = OWN_HEADS[task]
    return list(dict.fromkeys([*((n, own) for n in LAYERS), *((OWN_LAYERS, h) for h in HEADS)]))


def entries(*, seeds=3, smoke=False):
    """The searches, the runs seed by seed, and the timings.

    Args:
        seeds: runs of every shape.
        smoke: whether to train tiny models for two steps each.
    """
    settings = [dict(task=task, layers=n, heads=h) for task in KEYS for n, h in shapes(task)]
    rows = [{"stage": "search"} | row for row in settings]
    rows += [row | {"seed": seed} for seed in range(seeds) for row in settings]
    rows += [{"stage": "times", "task": task, "seed": 0} for task in KEYS]
    return [_entry(row, smoke=smoke) for row in rows]


def _entry(arguments, *, smoke):
    own = dict(task=arguments["task"], form="softmax", seed=arguments.get("seed", 0))
    return study.Entry(name_of(arguments), arguments, study.spec_of(CONFIG, own, more="smoke=true" if smoke else ""))


def name_of(arguments):
    """``classification-layers4-heads2-seed0``, ``search-classification-layers4-heads2`` or ``times-classification``."""
    stage, task = arguments.get("stage"), arguments["task"]
    if stage == "times":
        return f"times-{task}"
    keys = ("layers", "heads") if stage else ("layers", "heads", "seed")
    return "-".join([*filter(None, [stage]), task, *(f"{key}{arguments[key]}" for key in keys)])


def config_of(entry):
    """The config of a run, or of a trial of a search, which is half as long."""
    config, own = config_file.load(entry.spec), entry.arguments
    with config.unlocked():
        config.model.update(dict.fromkeys(KEYS[own["task"]], own["layers"]) | {"heads": own["heads"]})
        if own.get("stage") == "search" and "smoke" not in entry.spec:
            config.epochs, config.steps = config.epochs / 2, config.steps // 2
    return config


def run(entry, workdir, *, known):
    """Trains or resumes a run, searches a rate, or measures times, unless that is done; returns the record.

    Args:
        entry: one of `entries`.
        workdir: of the study.
        known: all entries by name; a run takes the rate that its search finds.
    """
    stage = entry.arguments.get("stage")
    if stage == "times":
        return measure_times(entry, workdir, known=known)
    if stage == "search":
        return search_rate(entry, workdir)
    found = search_rate(known[name_of(entry.arguments | {"stage": "search"})], workdir)
    own = search.at_best(entry, found)
    return study.run(own, workdir, measure=measure, record=RECORD, config=config_of(own))


def search_rate(entry, workdir):
    """The record of a search; see `lwt.report.search.of_rates`."""
    task = entry.arguments["task"]
    judged = dict(metric=JUDGED[task], lower=JUDGED[task] == "loss")
    return search.of_rates(entry, workdir, rates=FIRST[task], record=RECORD, config_of=config_of, **judged)


def measure(entry, folder):
    """The record of a run: figures on the test set, parameters, and the memory of a training step."""
    del entry
    trained = experiment.load(folder)
    counted = cost.measure(trained.config, rows=trained.config.data.rows, row_length=ROW)
    return {
        "epochs": trained.config.epochs,
        "checkpoint": trained.step,
        "figures": trained.report(),
        "rate": trained.config.optimizer.learning_rate,
        "parameters": trees.count(trained.weights),
        "memory": sum(counted[key] for key in ("parameter_bytes", "optimizer_bytes", "activation_bytes")),
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def measure_times(entry, workdir, *, known):
    """The record of a task's timings, of all shapes in turn, unless that is done."""
    folder, task = os.path.join(workdir, entry.name), entry.arguments["task"]
    kept = study.read_record(folder, RECORD)
    if kept:
        return kept
    names = [name_of(dict(task=task, layers=n, heads=h, seed=0)) for n, h in shapes(task)]
    for name in names:
        run(known[name], workdir, known=known)
    opened = {name: experiment.load(os.path.join(workdir, name)) for name in names}
    hardware.record(folder)
    times = latency.of_runs(opened, rows=BATCH)
    found = {"arguments": entry.arguments, "config": entry.spec, "times": times, "hardware": hardware.of_run(folder)}
    study.write_record(folder, found, record=RECORD)
    return found


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and the pictures into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Layers and heads", command_line=command_line)
    runs = {name: record for name, record in records.items() if "stage" not in record["arguments"]}
    times = {name: pair for record in records.values() for name, pair in record.get("times", {}).items()}
    timed = [record for record in records.values() if "times" in record]
    page.rows(row for record in runs.values() for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(f"{len(runs)} runs, {pages.hours(runs.values())} in all on {pages.machines(runs.values())}.")
    if timed:
        page.add(f"Times: {pages.machines(timed)}.")
    for task in KEYS:
        own = [record for record in runs.values() if record["arguments"]["task"] == task]
        if own:
            page.add(f"## {TITLES[task]}", table(own, task=task, times=times))
            for varied in ("layers", "heads"):
                picture = page.picture(f"{task}_{varied}.png", f"{task} by {varied}")
                draw(picture, own, task=task, varied=varied, times=times)
    return page.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: the figure, the parameters and the bytes of memory of a run."""
    fixed, shown = results.of_run(record, command_line=command_line), SHOWN[record["arguments"]["task"]]
    values = {shown: record["figures"][shown], "parameters": record["parameters"], "memory": record["memory"]}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def grouped(runs, *, task, varied=""):
    """``{(layers, heads): runs}`` of a task; with `varied` ("layers" or "heads") only where the other is its own."""
    found = {}
    for record in sorted(runs, key=lambda record: record["arguments"]["seed"]):
        n, h = record["arguments"]["layers"], record["arguments"]["heads"]
        if not varied or (h == OWN_HEADS[task] if varied == "layers" else n == OWN_LAYERS):
            found.setdefault((n, h), []).append(record)
    return dict(sorted(found.items()))


def quality(runs, task):
    """The figures of runs as the page shows them: in per cent, or BLEU."""
    return [results.shown(SHOWN[task])[1] * record["figures"][SHOWN[task]] for record in runs]


def table(runs, *, task, times):
    """The Markdown table of a task: a line for each shape."""
    header = ["layers", "heads", "parameters", results.shown(SHOWN[task])[0], "training memory, MB"]
    header += ["ms alone", "texts a second", "rate"]
    body = []
    for (n, h), own in grouped(runs, task=task).items():
        pair = times.get(name_of(dict(task=task, layers=n, heads=h, seed=0)))
        taken = [f"{1000 * pair[0]:.2f}", f"{BATCH / pair[1]:,.0f}"] if pair else ["–", "–"]
        size, memory = f"{own[0]['parameters']:,}", f"{own[0]['memory'] / 1e6:.1f}"
        figure, rate = results.Cell.of(quality(own, task)).text(2), f"{own[0]['rate']:g}"
        body.append([str(n), str(h), size, figure, memory, *taken, rate])
    return results.markdown(header, body)


def draw(path, runs, *, task, varied, times):
    """A line for each number of layers, or of heads: quality, parameters and time."""
    lines = {}
    for (n, h), own in grouped(runs, task=task, varied=varied).items():
        line = {"quality": quality(own, task), "size": own[0]["parameters"] / 1e6}
        pair = times.get(name_of(dict(task=task, layers=n, heads=h, seed=0)))
        lines[f"{n if varied == 'layers' else h} {varied}"] = line | ({"time": 1000 * pair[0]} if pair else {})
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {
        "quality": (f"{results.shown(SHOWN[task])[0]}, test", 1),
        "size": ("million parameters", 2),
        "time": ("ms, one text", 2),
    }
    columns = {key: about for key, about in columns.items() if any(key in line for line in lines.values())}
    plots.rows(lines, path, columns=columns, dots=("quality",), title=f"{TITLES[task]}: {best} are best")


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    chosen = study.choose(found, only=values.only, index=values.index)
    known = {entry.name: entry for entry in found}

    def in_order(out, records, **more):
        return write(out, {name: records[name] for name in known if name in records}, **more)

    def comparable(entry):
        return None if entry.arguments.get("stage") == "times" else config_of(entry)

    given = dict(write=in_order, record=RECORD, known=found, config=comparable, expected=found)
    study.main(chosen, functools.partial(run, workdir=values.workdir, known=known), **given)


if __name__ == "__main__":
    study.define_flags()
    flags.DEFINE_boolean("smoke", False, "Tiny models, two steps each, to check that everything runs.")
    study.start(main)
