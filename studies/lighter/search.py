"""Searches for the best architecture within a budget of bytes and milliseconds on this machine.

    python -m studies.lighter.search --task=translation --max_bytes=3_000_000 --max_milliseconds=20 \\
        --workdir=runs/search --out=docs/results/search_translation
    python -m studies.lighter.search --task=classification --data=folder:my_intents --max_bytes=500_000 \\
        --space=layers=4:6:8,width=32:64,format=int8:int4 --workdir=runs/search --out=search

1. Draws candidates until enough fit the budget of bytes, as in a file: depth, width, heads, feed-forward width,
   attention, format (`architectures.py`).
2. Drops candidates over the budget of time, measured on one text alone, all candidates in turn.
3. Successive halving (Jamieson and Talwalkar 2015, arXiv 1502.07943): short runs of all remaining candidates, longer
   runs of the better half, and so on. Candidates are ranked by Pareto fronts: first those that no other beats in
   validation quality at their bytes or time, then those that only these beat, and so on; a single figure would promote
   the largest. Every length is a separate run with a full schedule. (In the paper, runs resume.)
4. Measures the longest runs and their quantized files on the test set, as `lwt/inspect/measuring.py` does.

Writes README.md, candidates.csv, results.json and pictures into ``--out``. The same command resumes an unfinished
search; times measured earlier on this machine are kept in the workdir.
"""

import dataclasses
import functools
import json
import logging
import os
import time

import jax
from absl import flags

import lwt
from lwt import errors
from lwt.export import quantize
from lwt.inspect import measuring
from lwt.machine import command_line, hardware, latency
from lwt.reparam.compression import quantize as rounding
from lwt.report import pages, records, results, study
from studies.lighter import architectures, fronts

LOG = logging.getLogger(__name__)
TIMES = "milliseconds.json"
HOW_TO_READ = """\
Candidates are drawn at random. Those over the budget are dropped, the others are trained for a few steps, the better
part of them for more, and so on (`studies/lighter/search.py`). All choices are made on the validation set, with one
seed. The first table has the finalists on the test set, with their times measured again.

▪ marks what no other finalist beats in quality at as many bytes, or at as much time. "l4-d64-h2-f64" has 4 layers of
width 64, 2 heads, and a feed-forward width of 64.
"""
CANDIDATES = """\
Bytes are those of the weights in their format, milliseconds those of one text with random weights. The last column is
measured on the validation set after a candidate's longest run, whose steps are given. "–": not measured, since the
candidate is over the budget.
"""
TOGETHER = 16  # number of candidates whose programs are in memory at once


def promote(points, count):
    """The `count` best points: those on a front first, then those on the fronts of the rest, and so on.

    Args:
        points: `measuring.Point`s.
    """
    left, chosen = list(points), []
    while left and len(chosen) < count:
        best = {p.name for cost in fronts.COSTS for p in fronts.front(left, cost)}
        chosen += sorted((p for p in left if p.name in best), key=lambda p: -p.rank)
        left = [p for p in left if p.name not in best]
    return chosen[:count]


def milliseconds(task, chosen, workdir, *, data="", smoke=False, rounds=7):
    """``{name: milliseconds}`` of candidates, measured now or earlier on the same machine."""
    what = ", ".join(filter(None, (task, data, "smoke" if smoke else "")))
    path, machine = os.path.join(workdir, TIMES), f"{what} on {hardware.describe()}"
    try:
        with open(path) as file:
            kept = json.load(file).get(machine, {})
    except OSError:
        kept = {}
    missing = [candidate for candidate in chosen if candidate.name not in kept]
    for start in range(0, len(missing), TOGETHER):
        calls = {}
        for candidate in missing[start : start + TOGETHER]:
            config = architectures.config_of(task, candidate, steps=1, data=data, smoke=smoke)
            length = architectures.TASKS[task].length
            calls[candidate.name] = architectures.call(config, candidate.format, length=length)
        kept |= {name: 1e3 * own for name, own in latency.interleaved(calls, rounds=rounds).items()}
        study.write_record(workdir, {machine: kept}, record=TIMES)
        jax.clear_caches()
    return {candidate.name: kept[candidate.name] for candidate in chosen}


def measure(format, entry, folder):
    """The record of a run: its validation figure, with its weights in a format."""
    del entry
    experiment = lwt.load(folder)
    if format != architectures.FLOAT:
        rounded = quantize.weights(experiment, rounding.Quantize(format=format))
        experiment = experiment.with_weights(rounded, name=format, step=experiment.step)
    return {"figure": measuring.figure_of(experiment.config, experiment.report(split="validation"))}


def halve(chosen, lengths, *, train, costs, keep):
    """Successive halving: ``({name: (steps, quality)}, survivors)``; steps and quality are those of the longest run.

    Args:
        chosen: candidates.
        lengths: steps of the runs, ascending.
        train: ``(candidate, steps) -> (metric, lower, value)``; raises `lwt.errors.LwtError` when it fails.
        costs: ``{name: (bytes, milliseconds)}``.
        keep: share that reaches the next length; at least one candidate does.
    """
    reached = {}
    for number, steps in enumerate(lengths, 1):
        points = []
        for candidate in chosen:
            name = candidate.name
            try:
                metric, lower, value = train(candidate, steps)
            except study.Interrupted:
                raise
            except errors.LwtError as error:
                LOG.info("skipped: %s: %s", name, error)
                continue
            reached[name] = steps, value
            points.append(measuring.Point(name, "", "validation", metric, lower, value, 1, *costs[name]))
        if number < len(lengths):
            points = promote(points, max(1, round(keep * len(points))))
        names = [p.name for p in points]
        chosen = [candidate for candidate in chosen if candidate.name in names]
        LOG.info("remaining after %d steps: %s", steps, pages.listed(names))
    return reached, chosen


def final(survivors, folder_of, *, rounds):
    """Measures the survivors in their formats on the test set; returns their points.

    Args:
        folder_of: ``candidate -> folder of its longest run``.
    """
    wanted = {}
    for candidate in survivors:
        folder, format = folder_of(candidate), candidate.format
        wanted.setdefault(folder, set()).add(format)
        path = os.path.join(folder, "export", f"{format}.safetensors")
        if format != architectures.FLOAT and not os.path.exists(path):
            quantize.export(lwt.load(folder), path, quantization=rounding.Quantize(format=format))
    points = []
    for point, experiment in measuring.collect(list(wanted)):
        _, _, format = point.name.rpartition(", ")
        format = format if format in architectures.FORMATS else architectures.FLOAT
        if format in wanted[experiment.workdir]:
            points.append((point, experiment))
    return measuring.measure(points, rounds=rounds)


def write(out, *, lines, points, settings, machine, seconds, command_line):
    """Writes README.md, results.json, candidates.csv and pictures into the folder `out`; returns their names.

    Args:
        out: folder of the page.
        lines: a dict for each candidate, all with the same keys.
        points: dicts of the fields of `final`'s points.
        settings: a sentence on the budget.
        machine: that measured.
        seconds: that the search took.
    """
    points, (first, *_) = [measuring.Point(**own) for own in points], lines
    page = pages.Page(out, "Search for an architecture", command_line=command_line)
    page.rows(fronts.rows(points, machine=machine, seconds=seconds, command_line=command_line))
    page.csv("candidates.csv", (list(first), [list(line.values()) for line in lines]))
    label, factor = results.shown(points[0].metric)
    header = [label if key == "quality" else key for key in first]
    scaled = [line | {"quality": line["quality"] and f"{factor * line['quality']:.2f}"} for line in lines]
    page.add(f"The search took {seconds / 60:.0f} minutes on {machine}. {settings}", HOW_TO_READ)
    fronts.add(page, points)
    page.add(
        "## All candidates", CANDIDATES, results.markdown(header, [[*map(_shown, line.values())] for line in scaled])
    )
    return page.write()


def _shown(value):
    """A cell: a text, a number with all digits before the point, or a dash for nothing."""
    if isinstance(value, str):
        return value or "–"
    return f"{value:,.0f}" if value == int(value) else f"{value:.4g}"


def search(values):
    """Runs the search; returns what its page says, as `write` takes it.

    Args:
        values: the flags.

    Raises:
        lwt.errors.LwtError: no candidate fits the budget, all runs fail, or a flag is invalid.
    """
    begin = time.perf_counter()
    space = architectures.TASKS[values.task].space | parse(values.space)
    if not all(steps.isdecimal() and int(steps) for steps in values.steps):
        raise errors.ConfigError(f"--steps={','.join(values.steps)} should be numbers of steps, such as 200,600,1800")
    lengths = sorted(map(int, values.steps))
    config_of = functools.partial(architectures.config_of, values.task, data=values.data, smoke=values.smoke)
    size = {}  # of all drawn candidates

    def fits(candidate):
        size[candidate.name] = architectures.nbytes(config_of(candidate, steps=1), candidate.format)
        return not values.max_bytes or size[candidate.name] <= values.max_bytes

    small = architectures.candidates(space, count=values.candidates, seed=values.seed, fits=fits)
    timed = milliseconds(values.task, small, values.workdir, data=values.data, smoke=values.smoke, rounds=values.rounds)
    fast = [one for one in small if not values.max_milliseconds or timed[one.name] <= values.max_milliseconds]
    LOG.info("of %d candidates, %d are small enough, and %d of these are fast enough", len(size), len(small), len(fast))
    if not fast:
        least = min(timed.values(), default=None)
        fastest = f", {least:.3g} ms the fastest of the small" if least else ""
        raise errors.ConfigError(f"no candidate is within the budget: {min(size.values()):,} bytes the least{fastest}")

    def name(candidate, steps):
        return f"{candidate.architecture}-{steps}"

    def folder_of(candidate):
        return os.path.join(values.workdir, name(candidate, lengths[-1]))

    def train(candidate, steps):
        base, record = architectures.TASKS[values.task].config, os.path.join("eval", f"search_{candidate.format}.json")
        entry = study.Entry(name(candidate, steps), dataclasses.asdict(candidate), base)
        given = dict(measure=functools.partial(measure, candidate.format), config=config_of(candidate, steps=steps))
        figure = study.run(entry, values.workdir, record=record, **given)["figure"]
        jax.clear_caches()
        return figure

    costs = {one.name: (size[one.name], timed[one.name]) for one in fast}
    reached, survivors = halve(fast, lengths, train=train, costs=costs, keep=values.keep)
    if not survivors:
        raise errors.DataError(f"no run of {lengths[-1]} steps finished; see above")
    points = final(survivors, folder_of, rounds=values.rounds)
    lines = [
        {"candidate": one.name, "bytes": size[one.name], "milliseconds": _rounded(timed.get(one.name))}
        | dict(zip(("steps", "quality"), map(_rounded, reached.get(one.name, (None, None)))))
        for one in small
    ]
    asked = f"Asked for: at most {values.max_bytes:,} bytes and {values.max_milliseconds:g} ms (0: any), "
    asked += f"{len(small)} candidates; {len(size) - len(small)} others that were drawn are larger."
    return {
        "lines": lines,
        "points": [dataclasses.asdict(point) for point in points],
        "settings": asked,
        "machine": hardware.describe(),
        "seconds": round(time.perf_counter() - begin, 1),
        "command_line": pages.command_line(),
    }


def _rounded(value):
    return "" if value is None else float(f"{value:.4g}")


def parse(items):
    """``["layers=4:6", "attention=softmax"]`` -> ``{"layers": (4, 6), "attention": ("softmax",)}``.

    Raises:
        lwt.errors.ConfigError: an item has another form.
    """
    space = {}
    for item in items:
        name, separator, given = item.partition("=")
        if not separator or not given or name in space:
            raise errors.ConfigError(
                f"--space={item}: expected each name once, in a form such as layers=4:6,attention=softmax"
            )
        space[name] = tuple(int(value) if value.isdecimal() else value for value in given.split(":"))
    return space


def main():
    """The program."""
    values = flags.FLAGS
    facts = records.of_page(values.out, functools.partial(search, values), report_only=values.report_only)
    command_line.report({"out": values.out, "files": write(values.out, **facts)})


if __name__ == "__main__":
    flags.DEFINE_enum("task", None, sorted(architectures.TASKS), "Task of the models.")
    flags.DEFINE_string("data", "", "Argument `data` of the task's config; default: Multi30k or Snips.")
    flags.DEFINE_integer("max_bytes", 0, "Largest size of the weights in their format; 0: any.", lower_bound=0)
    flags.DEFINE_float("max_milliseconds", 0.0, "Longest time of one text; 0: any.", lower_bound=0)
    flags.DEFINE_list("space", [], "Values to try, such as layers=4:6,format=int8; defaults: architectures.py.")
    flags.DEFINE_integer("candidates", 32, "Number of candidates to draw within --max_bytes.", lower_bound=1)
    flags.DEFINE_list("steps", ["200", "600", "1800"], "Steps of the runs, ascending.")
    flags.DEFINE_float("keep", 0.5, "Share of candidates that reach the next length.", lower_bound=0, upper_bound=1)
    flags.DEFINE_integer("rounds", 7, "Number of turns of every model in the timing.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Random seed of the draw.", lower_bound=0)
    flags.DEFINE_boolean("smoke", False, "Use tiny data, to check that everything runs.")
    flags.DEFINE_string("workdir", None, "Folder of the runs.")
    flags.DEFINE_string("out", None, "Folder of the page.")
    pages.define_report_only()
    command_line.run(main, required=["task", "workdir", "out"])
