"""The page of a run's spectra: singular values of its weights, and of its updates to the run it started from.

    python -m studies.inspection.spectra --workdir=pretrained/multi30k --out=docs/results/spectra
    python -m studies.inspection.spectra --workdir=runs/ranks/rank16-lora-one-seed0 --out=docs/results/spectra_lora

Writes README.md, results.json, spectra.csv (a line for each weight), singular_values.csv (all of them, largest first)
and spectra.png. For a run with ``init_from``, the updates are its merged weights minus those that it started from.
"""

import collections
import functools
import statistics
import time

import numpy as np
from absl import flags

import lwt
from lwt.inspect import spectra
from lwt.machine import command_line, hardware
from lwt.report import line_names, pages, records, results, style

HOW_TO_READ = """\
Figures are means over the layers. "Norm" is the Frobenius norm, "largest" the largest singular value σ₁. The effective
rank is exp of the entropy of σ / Σσ (Roy and Vetterli 2007), the stable rank is Σσ² / σ₁². "Rank 90" is the smallest
rank that keeps 90 % of the energy Σσ², "rank 99" the same for 99 %. "Elbow" compares the curve of energy against rank
with a straight line between its ends: the rank where it is highest above the line, or – if it never is above.
"""


def kind(name):
    """The name that weights of all layers share: "encoder/layer_0/mlp/fc1/kernel" -> "encoder/mlp/fc1"."""
    parts = [part for part in name.removesuffix("/kernel").split("/") if not part.rpartition("_")[2].isdigit()]
    return "/".join(parts)


def facts_of(singular):
    """What the page says of ``{"weights" or "updates": {name: singular values}}``, as `write` takes it."""
    found = {of: {name: spectra.figures(values) for name, values in own.items()} for of, own in singular.items()}
    return {
        "singular": {of: {name: values.tolist() for name, values in own.items()} for of, own in singular.items()},
        "found": found,
        "means": {of: means_of(by_name) for of, by_name in found.items()},
    }


def means_of(by_name):
    """``{kind of weight: {"matrices": their number, figure: mean over those that have it, or None}}``."""
    groups, found = collections.defaultdict(list), {}
    for name, own in by_name.items():
        groups[kind(name)].append(own)
    for name, rows in groups.items():
        cells = {key: [row[key] for row in rows if row[key] is not None] for key in spectra.FIGURES}
        found[name] = {"matrices": len(rows)} | {key: statistics.fmean(c) if c else None for key, c in cells.items()}
    return found


def write(out, *, singular, found, means, workdir, command_line, seconds, machine):
    """Writes the page; returns the names of its files.

    Args:
        out: folder.
        singular, found, means: from `facts_of`.
        workdir: the run's folder, for the page.
    """
    page = pages.Page(out, "Spectra", command_line=command_line)
    fixed = {"config": str(workdir), "seed": None, "split": "", "paper": None, "hardware": machine}
    rows = [
        {**fixed, "overrides": {"of": of, "weight": name}, "metric": metric, "value": own[metric]}
        | {"seconds": seconds, "command": command_line}
        for of, by_name in found.items()
        for name, own in by_name.items()
        for metric in ("effective_rank", "rank_90")
    ]
    page.rows(rows)
    page.csv("spectra.csv", _lines(found))
    lines = [
        [of, name, *(f"{value:.4g}" for value in values)]
        for of, by_name in singular.items()
        for name, values in by_name.items()
    ]
    page.csv("singular_values.csv", (["of", "name", "singular values, largest first"], lines))
    page.add(HOW_TO_READ)
    for of, by_kind in means.items():
        page.add(f"## {of.capitalize()} of `{workdir}`", _table(by_kind))
    draw(page.picture("spectra.png", "energy over rank"), singular)
    return page.write()


def family(name):
    """What kinds of weights belong to, for the colours: attention, feed-forward layers or embeddings."""
    families = {"attention": "attention", "mlp": "feed-forward", "contract": "feed-forward", "embed": "embeddings"}
    return next((title for part, title in families.items() if part in name), "others")


def draw(path, singular):
    """Draws the share of the energy that a rank leaves out: means over the layers, a curve for each kind of weight."""
    at = np.linspace(0, 1, 101)
    title = "How much of the weights' energy a lower rank leaves out, a line for each kind of weight"
    with style.drawing(path, title, panels=len(singular)) as (drawn, _):
        for axes, (of, by_name) in zip(drawn.axes, singular.items(), strict=True):
            curves, families = collections.defaultdict(list), collections.defaultdict(list)
            for name, values in by_name.items():
                left = 1 - np.concatenate([[0], np.cumsum(np.square(values)) / np.square(values).sum()])
                curves[kind(name)].append(100 * np.interp(at, np.linspace(0, 1, len(left)), left))
            for name, own in curves.items():
                families[family(name)].append(np.mean(own, axis=0))
            named = {}
            for i, (name, own) in enumerate(families.items()):
                for curve in own:
                    axes.plot(at * 100, curve, color=style.COLORS[i], linewidth=1, alpha=0.7)
                named[name] = (40, max(curve[40] for curve in own), style.COLORS[i])
            axes.set(xlabel="rank (% of the full one)", ylabel="energy left out (%)")
            axes.set(xlim=(0, 100), ylim=(0, 100))
            axes.set_title(of.capitalize(), loc="left")
            line_names.put(axes, named, gap=0.07)


def _table(by_kind):
    body = []
    for name, own in by_kind.items():
        shown = ["–" if own[key] is None else f"{own[key]:.{digits}f}" for key, digits in spectra.FIGURES.items()]
        body.append([name, str(own["matrices"]), *shown])
    return results.markdown(["weight", "matrices", *(key.replace("_", " ") for key in spectra.FIGURES)], body)


def _lines(found):
    """``(header, lines)`` of spectra.csv."""
    return ["of", "name", *spectra.FIGURES], [
        [of, name, *("" if value is None else f"{value:.5g}" for value in own.values())]
        for of, by_name in found.items()
        for name, own in by_name.items()
    ]


def measured(values):
    """What the page says, as `write` takes it; `values` are the flags."""
    begin = time.perf_counter()
    experiment = lwt.load(values.workdir, checkpoint=values.checkpoint, base=values.base)
    singular = {"weights": spectra.of_weights(experiment.weights, values.weights)}
    if experiment.config.init_from:
        updates = spectra.of_updates(experiment.weights, experiment.base(), pattern=values.weights)
        singular |= {"updates": updates} if updates else {}
    about = {"workdir": values.workdir, "command_line": pages.command_line(), "machine": hardware.describe()}
    return facts_of(singular) | about | {"seconds": round(time.perf_counter() - begin, 2)}


def main():
    """The program."""
    values = flags.FLAGS
    facts = records.of_page(values.out, functools.partial(measured, values), report_only=values.report_only)
    counts = {of: len(own) for of, own in facts["singular"].items()}
    command_line.report({"out": values.out, "files": write(values.out, **facts), **counts})


if __name__ == "__main__":
    command_line.define_run()
    flags.DEFINE_string("out", "docs/results/spectra", "Folder of the page.")
    command_line.define_regex("weights", spectra.KERNELS, help="Regular expression for the names of the weights.")
    pages.define_report_only()
    command_line.run(main, required=["workdir"])
