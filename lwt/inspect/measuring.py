"""What every model gives for its bytes and its time: one plot a task, the best of each size on a line.

    python -m lwt.inspect.measuring --runs='runs/**' --out=docs/results/pareto
    python -m lwt.inspect.measuring --runs='runs/mt*,runs/student*' --only=multi30k --out=docs/results/mt

finds the finished runs, and the quantized files in their ``export/``, and writes ``OUT.md``, and into ``OUT/`` a
picture for every test set and ``results.json``. Runs that differ in their seed alone are one point.

quality   the figure that the runs are selected by, on the test set; of runs selected by their loss the first of
          `FIGURES` that there is. From ``eval/``, where it has the same checkpoint and decoding; else evaluated now.
bytes     of a file its size; of a run those of its weights in float32 (factors, integers and what stays of pruned
          layers as they are), or of base and adapter, where these are fewer. Zeros of single weights take as many.
time      of a record alone, and the rate in batches of 64: measured now, all models in turn (`lwt/machine/latency.py`)
"""

import dataclasses
import glob
import json
import logging
import os
import re
import statistics
import time

import jax
from absl import flags

from lwt import errors, trees
from lwt.inspect import fronts
from lwt.machine import command_line, hardware, latency
from lwt.reparam import compose
from lwt.report import pages, results, study
from lwt.runs import assembly, checkpoint, experiment, run_config
from lwt.training import new_run

LOG = logging.getLogger(__name__)
FIGURES = ("bleu", "exact_match", "accuracy", "loss")
ROWS = 64  # of the batch whose rate is measured


def find(patterns, *, only=""):
    """Folders of runs with checkpoints: those that a pattern with ``*`` and ``**`` matches, and the regex `only`.

    Raises:
        lwt.errors.ConfigError: there is none.
    """
    paths = {path for pattern in patterns for path in glob.glob(f"{pattern}/{run_config.NAME}", recursive=True)}
    folders = sorted(os.path.dirname(path) for path in paths)
    found = [folder for folder in folders if re.search(only, folder) and os.path.isdir(f"{folder}/checkpoints")]
    if not found:
        raise errors.ConfigError(f"--runs={','.join(patterns)} --only={only}: no folder with a run is called so")
    return found


def check_finished(folder):
    """Refuses a run that goes on, or broke off; one that was made of another (`new_run.py`) is finished.

    Raises:
        lwt.errors.LwtError: says how far it is.
    """
    if os.path.exists(os.path.join(folder, new_run.ORIGIN)):
        return
    steps = study.steps_of(run_config.read(folder), folder)
    if not study.finished(folder, steps):
        last = checkpoint.of_run(folder).last_step()
        raise errors.CheckpointError(f"{folder} stopped after step {last} of {steps}")


def made_by(folder):
    """How a run came about, such as ``seq2seq, structured, fine-tuned, lora``."""
    config, path = run_config.read(folder), os.path.join(folder, new_run.ORIGIN)
    origin = {}
    if os.path.exists(path):
        with open(path) as file:
            origin = json.load(file)
    parent = origin.get("run", config.init_from)
    methods = [origin.get("method", "derived")] if origin else _names(config.reparam)
    if config.task.name == "distill":
        methods.insert(0, "distilled")
    if not parent:
        return ", ".join([config.model.name, *methods])
    there = os.path.isfile(os.path.join(parent, run_config.NAME))
    return ", ".join([made_by(parent) if there else parent, *(methods or ["fine-tuned"])])


def _names(section):
    """Names of the reparametrizations of a section."""
    if section.name == "compose":
        return [name for part in section.parts for name in _names(part)]
    return [] if section.name == "none" else [section.name]


def quality(opened, *, file=""):
    """``(metric, lower, value)`` on the run's test set.

    Args:
        file: path of the artefact whose weights `opened` has; "" for the run's own.
    """
    return figure_of(opened.config, kept(opened, file) or opened.report())


def figure_of(config, figures):
    """``(metric, lower, value)``: which figure of an evaluation says how good a run is, and whether less is better."""
    metric, lower = config.select, config.select_mode == "min"
    if metric in ("loss", "perplexity"):
        metric = next(name for name in FIGURES if name in figures)
        lower = metric == "loss"
    return metric, lower, float(figures[metric])


def kept(opened, file=""):
    """The figures of an evaluation of just this model, from the run's ``eval/``; None if there is none."""
    made = {"data": opened.test, "checkpoint": opened.step}
    if hasattr(opened.task, "decoding"):
        made["decoding"] = opened.task.decoding()
    for path in sorted(glob.glob(os.path.join(glob.escape(opened.workdir), "eval", "*.json"))):
        with open(path) as file_of_figures:
            found = json.load(file_of_figures)
        same = all(found.get(key) == value for key, value in made.items())
        fresh = not file or os.path.getmtime(path) >= os.path.getmtime(file)
        if same and fresh and found.get("weights", "") == os.path.basename(file):
            return found
    return None


def size(opened):
    """Bytes of a run's weights, or of what it stores, where that is less."""
    reparam = compose.build(opened.config.reparam)
    stored = jax.eval_shape(lambda: assembly.initial_params(opened.config, opened.model, reparam=reparam))
    return min(trees.nbytes(opened.weights), trees.nbytes(stored))


def candidates(folder):
    """Opens a run and its files one by one: ``(file or "", experiment, bytes)``.

    Raises:
        lwt.errors.LwtError: it cannot be opened, or its task gives no answers.
    """
    opened = experiment.load(folder)
    if not hasattr(opened.task, "generate") and not hasattr(opened.task, "predict"):
        raise errors.ConfigError(f"{folder}: task.name={opened.config.task.name!r} gives no answers")
    yield "", opened, size(opened)
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "export", "*.safetensors"))):
        try:
            yield path, opened.with_file(path), os.path.getsize(path)
        except errors.CheckpointError as error:
            LOG.info("left out: %s", error)


def title(opened):
    """What a task is called: its test set, with the data that it is a part of."""
    name = opened.test
    return name if ":" in name else f"{opened.config.data.train.partition('@')[0]}@{name}"


def collect(folders):
    """Quality and bytes of all runs: ``[(point, opened)]``, of several seeds the first run as `opened`.

    Runs that cannot be measured are named in the log, and left out.
    """
    found = {}  # task, metric and name -> points and experiments of the seeds
    root = os.path.commonpath([os.path.dirname(os.path.abspath(folder)) for folder in folders])
    for folder in folders:
        try:
            check_finished(folder)
            for file, opened, count in candidates(folder):
                metric, lower, value = quality(opened, file=file)
                name = re.sub(r"[-_]?seed\d+", "", os.path.relpath(os.path.abspath(folder), root))
                if file:
                    name += f", {os.path.splitext(os.path.basename(file))[0]}"
                point = fronts.Point(name, made_by(folder), title(opened), metric, lower, value, 1, count)
                found.setdefault((point.task, metric, name), []).append((point, opened))
        except errors.LwtError as error:
            LOG.info("left out: %s", error)
    joined = []
    for own in found.values():
        mean = statistics.fmean(point.quality for point, _ in own)
        joined.append((dataclasses.replace(own[0][0], quality=mean, seeds=len(own)), own[0][1]))
    return joined


def measure(found, *, rounds):
    """The points of `collect`, timed: those of one task in turn."""
    points = []
    for group in fronts.groups(point for point, _ in found):
        own = {point: opened for point, opened in found if (point.task, point.metric) == group}
        seconds = latency.of_runs({point.name: opened for point, opened in own.items()}, rows=ROWS, rounds=rounds)
        for point in own:
            alone, together = seconds[point.name]
            points.append(dataclasses.replace(point, milliseconds=1e3 * alone, rate=ROWS / together))
        jax.clear_caches()
    return points


def page(points, folder, *, machine, command):
    """The Markdown page; draws its pictures into `folder`."""
    text, names = fronts.sections(points, folder, beside=f"{os.path.basename(folder)}/")
    lines = [
        "# Quality against bytes and time",
        "",
        f"Made by `{command}`. Times are those of {machine}: medians of rounds in which all models of a task take "
        f"turns, of a record alone and in batches of {ROWS}, all as long as the longest of these; translations are "
        "greedy (or as the run's config says) and decoded to their end. Bytes are those of the file, or of the weights "
        "in float32. ▪ marks what no other model beats in quality for as many bytes, or as much time; the pictures "
        "join these by a line.",
        "",
        "How it is measured: `lwt/inspect/measuring.py`; rows for programs: "
        f"[results.json]({os.path.basename(folder)}/results.json).",
        "",
        text,
    ]
    return "\n".join(lines), names


def main():
    """The program: measures, and writes the page."""
    values, begin = flags.FLAGS, time.perf_counter()
    kept_rows = os.path.join(values.out, "results.json")
    if not values.report_only:
        found = collect(find(values.runs, only=values.only))
        if not found:
            raise errors.DataError(f"--runs={','.join(values.runs)}: none of the runs could be measured; see above")
        points = measure(found, rounds=values.rounds)
        facts = {"seconds": round(time.perf_counter() - begin, 1), "command": pages.command_line()}
        results.write(kept_rows, fronts.rows(points, machine=hardware.describe(), **facts))
    rows = results.load(kept_rows)
    points = fronts.points_of(rows)
    text, names = page(points, values.out, machine=rows[0]["hardware"], command=rows[0]["command"])
    with open(f"{values.out}.md", "w", encoding="utf-8") as file:
        file.write(text)
    command_line.report({"page": f"{values.out}.md", "points": len(points), "pictures": names})


if __name__ == "__main__":
    flags.DEFINE_list("runs", ["runs/**"], "Folders of runs, with * and **, separated by commas.")
    flags.DEFINE_string("only", "", "A regex for the folders to take.")
    flags.DEFINE_integer("rounds", 7, "Turns of every model in the timing.", lower_bound=1)
    flags.DEFINE_boolean("report_only", False, "Measure nothing: write the page anew from its results.json.")
    flags.DEFINE_string("out", "docs/results/pareto", "The page, OUT.md, and folder of its pictures.")
    command_line.run(main, required=[])
