"""Measures quality, time and memory for several numbers of layers, and of heads at equal width.

    python -m studies.lighter.shapes --workdir=runs/shapes --out=docs/results/shapes
    python -m studies.lighter.shapes --workdir=runs/shapes --only=^classification
    python -m studies.lighter.shapes --workdir=runs/shapes --only=^times
    python -m studies.lighter.shapes --workdir=runs/shapes --report_only

"Lightweight Transformers" proposes 4 to 8 layers. A run is a task of `configs/kv_projection.py` with softmax attention
and another number of layers or heads; all runs of a task train for the same steps. Every shape gets the same search of
three rates. A translator with n layers has n in the encoder and n in the decoder.

The runs ``times-TASK`` measure how long the models of seed 0 take, all in turn (`lwt/machine/latency.py`); nothing else
should run on the machine meanwhile. How rates are searched, and runs are chosen, resumed and reported:
`lwt/report/searched.py`.
"""

import os
import statistics

from lwt import trees
from lwt.inspect import cost
from lwt.machine import hardware, latency
from lwt.report import pages, plots, results, searched, study
from lwt.runs import config_file, experiment

CONFIG = "configs/kv_projection.py"
RECORD = os.path.join("eval", "shapes_study.json")
LAYERS, HEADS = (2, 4, 6, 8, 12), (1, 2, 4, 8, 16)
OWN_LAYERS, OWN_HEADS = 4, {"classification": 2, "translation": 4}
KEYS = {"classification": ("layers",), "translation": ("encoder_layers", "decoder_layers")}
MODEL = {  # with the norms behind the residual sums, encoders of 6 and 12 layers stay at the most frequent class
    "classification": dict(norm_place="inline"),
    "translation": {},
}
TITLES = {"classification": "Emotion, a BERT of width 80", "translation": "Multi30k, a translator of width 128"}
FIRST = {"classification": (1.25e-4, 5e-4, 2e-3), "translation": (7.5e-4, 3e-3, 1.2e-2)}  # rates of the search
JUDGED = {"classification": "mcc", "translation": "loss"}  # what chooses a rate, on the validation set
SHOWN = {"classification": "accuracy", "translation": "bleu"}
ROW, BATCH = 32, 64  # positions of the rows that memory is counted for, and texts of a timed batch
HOW_TO_READ = f"""\
Quality is measured on the test set: mean ± standard deviation over the seeds. Memory is that of a training step as
compiled: weights, optimizer and arrays, for rows of {ROW} tokens. Times are medians for one text alone and for batches
of {BATCH}. Rates are the best of three on the validation set, each tried with seed 0 for half of the training.
"""
GREEDY = "For the times, translations are greedy and go on to the length limit."


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
    found = searched.entries(settings, of=spec_of, seeds=seeds, smoke=smoke)
    for task in KEYS:
        arguments = {"stage": "times", "task": task, "seed": 0}
        found.append(study.Entry(f"times-{task}", arguments, spec_of(arguments, 0)))
    return found


def spec_of(arguments, seed):
    """``FILE.py:key=value,...`` of a run, the same for all shapes of a task."""
    return study.spec_of(CONFIG, dict(task=arguments["task"], form="softmax", seed=seed))


def config_of(entry):
    """The config of a run, or of a trial of a search; timings have none."""
    if entry.arguments.get("stage") == "times":
        return None
    config, own = config_file.load(entry.spec), entry.arguments
    with config.unlocked():
        config.model.update(
            dict.fromkeys(KEYS[own["task"]], own["layers"]) | {"heads": own["heads"]} | MODEL[own["task"]]
        )
    return searched.shortened(config, entry)


def run(entry, workdir, *, known):
    """Trains or resumes a run, searches a rate, or measures times, unless that is done; returns the record.

    See `searched.run`.
    """
    task = entry.arguments["task"]
    if entry.arguments.get("stage") == "times":
        return measure_times(entry, workdir, known=known)
    given = dict(rates=FIRST[task], record=RECORD, config_of=config_of, measure=measure)
    return searched.run(entry, workdir, known=known, metric=JUDGED[task], lower=JUDGED[task] == "loss", **given)


def measure(entry, folder):
    """The record of a run: figures on the test set, parameters, and the memory of a training step."""
    del entry
    trained = experiment.load(folder)
    counted = cost.measure(trained.config, rows=trained.config.data.rows, row_length=ROW)
    memory = sum(counted[key] for key in ("parameter_bytes", "optimizer_bytes", "activation_bytes"))
    return searched.facts(trained, folder) | {"parameters": trees.count(trained.weights), "memory": memory}


def measure_times(entry, workdir, *, known):
    """The record of a task's timings, of all shapes in turn, unless that is done."""
    folder, task = os.path.join(workdir, entry.name), entry.arguments["task"]
    kept = study.read_record(folder, RECORD)
    if kept:
        return kept
    names = [searched.name_of(dict(task=task, layers=n, heads=h, seed=0)) for n, h in shapes(task)]
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
    runs, _ = searched.parted(records)
    times = {name: pair for record in records.values() for name, pair in record.get("times", {}).items()}
    timed = [record for record in records.values() if "times" in record]
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(pages.effort(runs) + ".")
    if timed:
        page.add(f"Times: {pages.machines(timed)}.")
    for task in KEYS:
        own = [record for record in runs if record["arguments"]["task"] == task]
        if own:
            page.add(f"## {TITLES[task]}", table(own, task=task, times=times))
            page.add(searched.error_of(own) if SHOWN[task] == "accuracy" else GREEDY)
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
        pair = times.get(searched.name_of(dict(task=task, layers=n, heads=h, seed=0)))
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
        pair = times.get(searched.name_of(dict(task=task, layers=n, heads=h, seed=0)))
        count = n if varied == "layers" else h
        lines[f"{count} {varied if count > 1 else varied[:-1]}"] = line | ({"time": 1000 * pair[0]} if pair else {})
    best = max(lines, key=lambda name: statistics.fmean(lines[name]["quality"]))
    columns = {
        "quality": (f"{results.shown(SHOWN[task])[0]}, test", 1),
        "size": ("million parameters", 2),
        "time": ("ms, one text", 2),
    }
    columns = {key: about for key, about in columns.items() if any(key in line for line in lines.values())}
    title = f"{TITLES[task]}: highest with {best} (n={len(lines[best]['quality'])})"
    plots.rows(lines, path, columns=columns, dots=("quality",), title=title)


def main():
    """The program."""
    searched.main(entries, run, write=write, record=RECORD, config=config_of)


if __name__ == "__main__":
    searched.start(main)
