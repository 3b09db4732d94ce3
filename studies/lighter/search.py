"""Which architecture gives most within a budget of bytes and of milliseconds, on the machine at hand.

    python -m studies.lighter.search --task=translation --max_bytes=3_000_000 --max_milliseconds=20 \\
        --workdir=runs/search --out=docs/results/search_translation
    python -m studies.lighter.search --task=classification --data=folder:my_intents --max_bytes=500_000 \\
        --space=layers=4:6:8,width=32:64,format=int8:int4 --workdir=runs/search --out=search

1. Candidates are drawn, until so many are within the budget of bytes, as in a file: depth, width, heads, feed-forward
   width, attention, format (`architectures.py`).
2. Those over the budget of time go: as measured, a text alone, all candidates in turn.
3. Successive halving (Jamieson and Talwalkar 2015, arXiv 1502.07943): short runs of all that are left, longer ones of
   the better half, and so on. Which are better is told by fronts: first what no other beats in quality on the
   validation set for its bytes or its time, then what only these beat, and so on; a single figure would promote the
   largest. Every length is a run of its own, with a whole schedule. (In the paper runs go on.)
4. The runs of the last length, and their quantized files, are measured as `measuring.py` does it, on the test set.

writes ``README.md``, ``candidates.csv``, ``results.json`` and a picture into ``--out``. The same command goes on where
it stopped; times that were measured on this machine before are kept in the workdir.
"""

import csv
import dataclasses
import functools
import json
import logging
import os
import pathlib
import time

import jax
from absl import flags

from lwt import errors
from lwt.export import quantize
from lwt.inspect import fronts, measuring
from lwt.machine import command_line, hardware, latency
from lwt.reparam import quantize as rounding
from lwt.report import pages, results, study
from lwt.runs import experiment
from studies.lighter import architectures

LOG = logging.getLogger(__name__)
TIMES = "milliseconds.json"
TOGETHER = 16  # candidates whose programs are in memory at one time


def promote(points, count):
    """The `count` best: those on a front first, then those on the fronts of the rest, and so on.

    Args:
        points: `fronts.Point`s.
    """
    left, chosen = list(points), []
    while left and len(chosen) < count:
        best = {p.name for cost in fronts.COSTS for p in fronts.front(left, cost)}
        chosen += sorted((p for p in left if p.name in best), key=lambda p: -p.rank)
        left = [p for p in left if p.name not in best]
    return chosen[:count]


def milliseconds(task, chosen, workdir, *, data="", smoke=False, rounds=7):
    """``{name: milliseconds}`` of candidates, measured now or, on the same machine, before."""
    path, machine = os.path.join(workdir, TIMES), f"{task} on {hardware.describe()}"
    try:
        with open(path) as file:
            kept = json.load(file).get(machine, {})
    except OSError:
        kept = {}
    missing = [one for one in chosen if one.name not in kept]
    for start in range(0, len(missing), TOGETHER):
        calls = {}
        for one in missing[start : start + TOGETHER]:
            config = architectures.config_of(task, one, steps=1, data=data, smoke=smoke)
            calls[one.name] = architectures.call(config, one.format, length=architectures.TASKS[task].length)
        kept |= {name: 1e3 * own for name, own in latency.interleaved(calls, rounds=rounds).items()}
        study.write_record(workdir, {machine: kept}, record=TIMES)
        jax.clear_caches()
    return {one.name: kept[one.name] for one in chosen}


def measure(format, entry, folder):
    """The figure of a run on its validation set, with its weights in a format: its record."""
    del entry
    opened = experiment.load(folder)
    if format != architectures.FLOAT:
        rounded = quantize.weights(opened, rounding.Quantize(format=format))
        opened = opened.with_weights(rounded, name=format, step=opened.step)
    return {"figure": measuring.figure_of(opened.config, opened.report(split="validation"))}


def halve(chosen, lengths, train, costs, *, keep):
    """Successive halving: ``({name: (steps, quality)}, survivors)``, of every candidate the last run that it had.

    Args:
        chosen: candidates.
        lengths: of the runs, in steps, growing.
        train: ``(candidate, steps) -> (metric, lower, value)``; raises `lwt.errors.LwtError` if it fails.
        costs: ``{name: (bytes, milliseconds)}``.
        keep: share that goes on to the next length; one at least.
    """
    reached = {}
    for number, steps in enumerate(lengths, 1):
        points = []
        for one in chosen:
            try:
                metric, lower, value = train(one, steps)
            except study.Interrupted:
                raise
            except errors.LwtError as error:
                LOG.info("left out: %s: %s", one.name, error)
                continue
            reached[one.name] = steps, value
            of, time_of = costs[one.name]
            points.append(fronts.Point(one.name, "", "validation", metric, lower, value, 1, of, time_of))
        if number < len(lengths):
            points = promote(points, max(1, round(keep * len(points))))
        names = [p.name for p in points]
        chosen = [one for one in chosen if one.name in names]
        LOG.info("after %d steps there are left: %s", steps, pages.listed(names))
    return reached, chosen


def final(survivors, folder_of, *, rounds):
    """The points of the survivors, in their formats, measured on the test set.

    Args:
        folder_of: ``candidate -> folder`` of its longest run.
    """
    wanted = {}
    for one in survivors:
        folder = folder_of(one)
        wanted.setdefault(folder, set()).add(one.format)
        path = os.path.join(folder, "export", f"{one.format}.safetensors")
        if one.format != architectures.FLOAT and not os.path.exists(path):
            quantize.export(experiment.load(folder), path, quantization=rounding.Quantize(format=one.format))
    found = []
    for point, opened in measuring.collect(list(wanted)):
        _, _, format = point.name.rpartition(", ")
        format = format if format in architectures.FORMATS else architectures.FLOAT
        if format in wanted[opened.workdir]:
            found.append((point, opened))
    return measuring.measure(found, rounds=rounds)


def write(out, lines, points, *, settings, seconds):
    """The page, the pictures, the table of all candidates, and rows for programs; returns the names of the files.

    Args:
        lines: dicts of one shape, one for every candidate.
        points: of those that were left.
        settings: sentence of what was asked for.
    """
    out, machine, made = pathlib.Path(out), hardware.describe(), pages.command_line()
    results.write(out / "results.json", fronts.rows(points, machine=machine, seconds=seconds, command=made))
    with open(out / "candidates.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    text, pictures = fronts.sections(points, out, beside="")
    body = [[str(value) if value != "" else "–" for value in line.values()] for line in lines]
    page = [
        "# Search for an architecture\n",
        f"Made by `{made}` in {seconds / 60:.0f} minutes on {machine}. {settings} How: `studies/lighter/search.py`.\n",
        text,
        "## All candidates\n",
        "Milliseconds of one text with random weights, quality on the validation set after the last run that a "
        "candidate had; bytes of the weights in their format.\n",
        results.markdown(list(lines[0]), body),
    ]
    (out / "README.md").write_text("\n".join(page), encoding="utf-8")
    return ["README.md", "candidates.csv", "results.json", *pictures]


def search(values):
    """The whole search; returns the names of the files of its report.

    Args:
        values: the flags.

    Raises:
        lwt.errors.LwtError: the budget leaves no candidate, all runs failed, or a flag is wrong.
    """
    begin = time.perf_counter()
    space = architectures.TASKS[values.task].space | parse(values.space)
    if not all(steps.isdecimal() and int(steps) for steps in values.steps):
        raise errors.ConfigError(f"--steps={','.join(values.steps)} should be numbers of steps, such as 200,600,1800")
    lengths = sorted(map(int, values.steps))
    config_of = functools.partial(architectures.config_of, values.task, data=values.data, smoke=values.smoke)
    size = {}  # of those that were looked at

    def fits(one):
        size[one.name] = architectures.nbytes(config_of(one, steps=1), one.format)
        return not values.max_bytes or size[one.name] <= values.max_bytes

    small = architectures.candidates(space, count=values.candidates, seed=values.seed, fits=fits)
    timed = milliseconds(values.task, small, values.workdir, data=values.data, smoke=values.smoke, rounds=values.rounds)
    fast = [one for one in small if not values.max_milliseconds or timed[one.name] <= values.max_milliseconds]
    LOG.info("of %d candidates %d are small enough, and %d of these fast enough", len(size), len(small), len(fast))
    if not fast:
        least = min(timed.values(), default=None)
        fastest = f", {least:.3g} ms the fastest of the small" if least else ""
        raise errors.ConfigError(f"no candidate is within the budget: {min(size.values()):,} bytes the least{fastest}")
    name = lambda one, steps: f"{one.architecture}-{steps}"  # noqa: E731

    def train(one, steps):
        entry = study.Entry(name(one, steps), dataclasses.asdict(one), architectures.TASKS[values.task].config)
        of_format, record = functools.partial(measure, one.format), os.path.join("eval", f"search_{one.format}.json")
        made = study.run(entry, values.workdir, measure=of_format, record=record, config=config_of(one, steps=steps))
        jax.clear_caches()
        return made["figure"]

    costs = {one.name: (size[one.name], timed[one.name]) for one in fast}
    reached, survivors = halve(fast, lengths, train, costs, keep=values.keep)
    if not survivors:
        raise errors.DataError(f"none of the runs of {lengths[-1]} steps came to its end; see above")
    folder_of = lambda one: os.path.join(values.workdir, name(one, lengths[-1]))  # noqa: E731
    points = final(survivors, folder_of, rounds=values.rounds)
    lines = [
        {"candidate": one.name, "bytes": size[one.name], "milliseconds": _rounded(timed.get(one.name))}
        | dict(zip(("steps", "quality"), map(_rounded, reached.get(one.name, (None, None)))))
        for one in small
    ]
    asked = f"Asked for: at most {values.max_bytes:,} bytes and {values.max_milliseconds:g} ms (0: any), "
    asked += f"{len(small)} candidates; {len(size) - len(small)} others that were drawn are larger."
    return write(values.out, lines, points, settings=asked, seconds=round(time.perf_counter() - begin, 1))


def _rounded(value):
    return "" if value is None else float(f"{value:.4g}")


def parse(items):
    """``["layers=4:6", "attention=softmax"]`` -> ``{"layers": (4, 6), "attention": ("softmax",)}``.

    Raises:
        lwt.errors.ConfigError: an item that does not look so.
    """
    space = {}
    for item in items:
        name, separator, given = item.partition("=")
        if not separator or not given:
            raise errors.ConfigError(f"--space={item}: it should look like layers=4:6,attention=softmax")
        space[name] = tuple(int(value) if value.isdecimal() else value for value in given.split(":"))
    return space


def main():
    """The program."""
    command_line.report({"out": flags.FLAGS.out, "files": search(flags.FLAGS)})


if __name__ == "__main__":
    flags.DEFINE_enum("task", None, sorted(architectures.TASKS), "What is searched for.")
    flags.DEFINE_string("data", "", "The argument data of the task's config; default: Multi30k, or Snips.")
    flags.DEFINE_integer("max_bytes", 0, "Most bytes of the weights in their format; 0: any.", lower_bound=0)
    flags.DEFINE_float("max_milliseconds", 0.0, "Most milliseconds of one text; 0: any.", lower_bound=0)
    flags.DEFINE_list("space", [], "Values to try, such as layers=4:6,format=int8; the others: see architectures.py.")
    flags.DEFINE_integer(
        "candidates", 32, "So many are drawn from those of the space within --max_bytes.", lower_bound=1
    )
    flags.DEFINE_list("steps", ["200", "600", "1800"], "Lengths of the runs, growing.")
    flags.DEFINE_float("keep", 0.5, "Share that goes on to the next length.", lower_bound=0, upper_bound=1)
    flags.DEFINE_integer("rounds", 7, "Turns of every model in the timing.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Of the draw.")
    flags.DEFINE_boolean("smoke", False, "Tiny data: to see that all runs.")
    flags.DEFINE_string("workdir", None, "Folder of the runs.")
    flags.DEFINE_string("out", None, "Folder of the report.")
    command_line.run(main, required=["task", "workdir", "out"])
