"""Measures a model's quality as compression methods cut more of it: right after the cut, and after retraining.

    python -m studies.lighter.compression --base=runs/snips --workdir=runs/compression --out=docs/results/compression
    python -m studies.lighter.compression --base=runs/mt --epochs=1 --workdir=runs/mt-cuts --out=cuts --only='^svd'
    python -m studies.lighter.compression --base=runs/snips --workdir=runs/compression --report_only

A point is a method of `METHODS` at one strength: a cut of the base by `lwt/compress`, and a run that trains it for
``--epochs`` with `configs/lightweight.py`, in a folder such as ``weights-0.8-seed0/``. Gradual pruning is a single run,
whose sparsity rises over the first ``--ramp`` steps. Students start from scratch and train as long as the base did. All
are evaluated on the base's test set.

`lwt/report/study.py` chooses, resumes and reports the points.
"""

import dataclasses
import functools
import math
import os
import re

import jax
import numpy as np
from absl import flags

from lwt import errors
from lwt.inspect import measuring
from lwt.machine import hardware
from lwt.report import pages, plots, results, study
from lwt.runs import run_config
from studies.lighter import recipe

CONFIG = "configs/lightweight.py"
RECORD = "compression_study.json"
FINETUNE, ZEROS_STAY = dict(method="finetune"), dict(method="prune")  # zeros of the base stay zeros
KERNELS = re.compile(r".*kernel")
HOW_TO_READ = """\
"As cut" is the quality right after the cut, "trained" the quality after retraining, for the same number of epochs with
every cut. Gradual pruning cuts during this training. A student is a narrower model that is trained from scratch for as
many epochs as the base, so its budget is larger; a taught one also learns from the base's outputs. Rates were not
searched for each method. "Difference" is relative to the base, in points, and n is the number of seeds.

"Left" is the share of the base's kernel values that remain: values that are not 0, or values of the factors. Embedding
tables, biases and norms are not counted. Zeros in place of weights save no bytes; the removal of heads or units,
factors and narrower models do. For every method, the picture shows the strongest cut whose quality on the test set is
within {lost} points of the base's.
"""


@dataclasses.dataclass(frozen=True)
class Method:
    """A compression method at several strengths.

    Attributes:
        title: its name on the page.
        argument: argument that is the strength: of `cut`, or of the config file if there is no cut.
        strengths: its values, the mildest first.
        cut: a key of `recipe.CUTS`, or "" for no cut before training.
        settings: other arguments of the cut.
        training: arguments of the config file.
    """

    title: str
    argument: str
    strengths: tuple
    cut: str = ""
    settings: dict = dataclasses.field(default_factory=dict)
    training: dict = dataclasses.field(default_factory=lambda: FINETUNE)


SPARSITIES = (0.5, 0.7, 0.8, 0.9, 0.95)
SHARES = (0.25, 0.5, 0.75)
ENERGIES = (0.8, 0.6, 0.4, 0.2)
METHODS = {
    "weights": Method("weights, a layer's smallest", "sparsity", SPARSITIES, "sparsify", training=ZEROS_STAY),
    "global": Method(
        "weights, the model's smallest", "sparsity", SPARSITIES, "sparsify", dict(scope="global"), ZEROS_STAY
    ),
    "gradual": Method("weights, gradually", "sparsity", SPARSITIES, training=ZEROS_STAY),
    "pattern": Method("weights, n of 4", "pattern", ([2, 4], [1, 4]), "sparsify", training=ZEROS_STAY),
    "units": Method("hidden units", "units", (*SHARES, 0.9), "structured"),
    "heads": Method("heads", "heads", SHARES, "structured"),
    "svd": Method("SVD", "energy", ENERGIES, "factorise"),
    "svd_calibrated": Method("SVD, calibrated", "energy", ENERGIES, "factorise", dict(calibrate=256)),
    "student": Method("student", "width", (0.75, 0.5, 0.25), training=FINETUNE),
    "taught": Method("student, taught", "width", (0.75, 0.5, 0.25), training=dict(method="distill")),
}
LOST = 2  # points of quality that a method may lose in the picture


@dataclasses.dataclass(frozen=True)
class Point(study.Entry):
    """A method at one strength.

    Attributes:
        chain: its stages, for `recipe.run`.
    """

    chain: list


def entries(base, *, epochs, ramp, seeds=1, smoke=False, train=True):
    """The points of the study, seed by seed.

    Args:
        base: folder of the run to compress.
        epochs: epochs of training after a cut; ramp: steps over which gradual pruning raises the sparsity.
        seeds: number of training seeds.
        smoke: train two steps each.
        train: whether they will be trained; if not, students have no sizes, and the run need not exist.

    Raises:
        lwt.errors.ConfigError: the run does not exist.
    """
    sizes, points = run_config.read(base).model if train else None, []
    for seed in range(seeds):
        for name, method in METHODS.items():
            for strength in method.strengths:
                training = dict(method.training, seed=seed)
                if method.argument == "width":
                    training |= dict(teacher=base, **(narrower(sizes, strength) if sizes else {}))
                elif method.cut:
                    training |= dict(epochs=epochs)
                else:
                    training |= dict(base=base, epochs=epochs, sparsity=strength, ramp=ramp)
                training |= dict(smoke=True) if smoke else {}
                arguments = dict(method=name, strength=_shown(strength), seed=seed)
                chain = [("cut", method.cut, {method.argument: strength, **method.settings})] if method.cut else []
                folder = f"{name}-{_shown(strength).replace(':', 'of')}-seed{seed}"
                spec = study.spec_of(CONFIG, training)
                points.append(Point(folder, arguments, spec, [*chain, ("trained", "train", training)]))
    return points


def narrower(sizes, share):
    """``{"width", "hidden"}`` of a student, about this share of the teacher's; the width is a multiple of 2 · heads."""
    unit = 2 * sizes.get("heads", 1)
    width = {"width": max(1, round(share * sizes.width / unit)) * unit}
    return width | ({"hidden": max(1, round(share * sizes.hidden))} if "hidden" in sizes else {})


def run(entry, workdir, *, base):
    """Cuts, trains and evaluates a point, unless it has a record; returns the record."""
    folder = os.path.join(workdir, entry.name)
    same = {"arguments": entry.arguments, "config": entry.spec, "base": base}
    kept = study.read_record(folder, RECORD)
    if kept and {key: kept[key] for key in same} == same:
        return kept
    teacher, *made = recipe.run(entry.chain, base, folder, path=CONFIG)
    trained = made[-1]
    metric, lower, quality = measuring.quality(trained.experiment)
    record = same | {
        "metric": metric,
        "lower": lower,
        "whole": measuring.quality(teacher.experiment)[2],
        "cut": measuring.quality(made[0].experiment)[2] if len(made) > 1 else None,
        "trained": quality,
        "left": kernels(trained.experiment) / kernels(teacher.experiment),
        "bytes": trained.bytes,
        "data": measuring.title(trained.experiment),
        "seconds": trained.seconds,
        "hardware": hardware.of_run(os.path.join(folder, "trained")),
    }
    study.write_record(folder, record, record=RECORD)
    return record


def kernels(experiment):
    """The number of nonzero values in an experiment's kernels or their factors."""
    chosen = [w for name, w in experiment.weights.items() if KERNELS.fullmatch(name)]
    return int(sum(np.count_nonzero(leaf) for leaf in jax.tree.leaves(chosen)))


def rows_of(records, *, command_line):
    """Rows for ``results.json``: quality as cut and trained, share left, and bytes of every point."""
    rows = []
    for record in records.values():
        fixed = results.of_run(record | {"figures": {"data": record["data"]}}, command_line=command_line)
        values = {record["metric"]: record["trained"], f"{record['metric']}_as_cut": record["cut"]}
        values |= {key: record[key] for key in ("left", "bytes")}
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items() if value is not None]
    return rows


def by_point(records):
    """``{(method, strength): [records of the seeds]}``, in the order of `METHODS`."""
    groups = {}
    for name, method in METHODS.items():
        for strength in map(_shown, method.strengths):
            own = [
                r
                for r in records.values()
                if (r["arguments"]["method"], r["arguments"]["strength"]) == (name, strength)
            ]
            if own:
                groups[name, strength] = own
    return groups


def table(records, factor):
    """The Markdown table of the points."""
    body = []
    for (name, strength), own in by_point(records).items():
        cut = [record["cut"] for record in own if record["cut"] is not None]
        base, trained = own[0]["whole"], results.Cell.of([record["trained"] for record in own], scale=factor)
        about = [METHODS[name].title, f"{METHODS[name].argument} {strength}"]
        about += [f"{own[0]['left']:.1%}", f"{own[0]['bytes']:,}", f"{factor * cut[0]:.2f}" if cut else "–"]
        minutes = sum(record["seconds"] for record in own) / 60
        body.append([*about, trained.text(2), f"{trained.mean - factor * base:+z.2f}", f"{minutes:.1f}"])
    return results.markdown(
        ["method", "strength", "left", "bytes", "as cut", "trained", "difference", "training, min"], body
    )


def draw(path, records):
    """Draws how few numbers every method leaves at a loss of at most `LOST` points, and the quality there."""
    first = next(iter(records.values()))
    metric, unit, factor = results.named(first["metric"])
    whole, lines = factor * first["whole"], {}
    for (name, _), own in by_point(records).items():
        trained = results.Cell.of([record["trained"] for record in own], scale=factor).mean
        line = lines.setdefault(METHODS[name].title, {})
        if trained >= whole - LOST and 100 * own[0]["left"] < line.get("left", math.inf):
            line |= {"left": 100 * own[0]["left"], "trained": trained}
            cut = [factor * record["cut"] for record in own if record["cut"] is not None]
            line.pop("cut", None)
            line |= {"cut": cut} if cut else {}
    order = sorted(lines, key=lambda title: lines[title].get("left", math.inf))
    title = f"The fewest numbers at which each method loses at most {LOST} points of {whole:.1f}{unit} {metric}"
    columns = {"left": ("left in kernels (%)", 0), "cut": ("as cut", 1), "trained": ("trained again", 1)}
    plots.rows({title: lines[title] for title in order}, path, columns=columns, title=title)


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and compression.png into the folder `out`; see `study.main`.

    Raises:
        lwt.errors.ConfigError: the records have several bases.
    """
    bases = sorted({record["base"] for record in records.values()})
    if len(bases) > 1:
        raise errors.ConfigError(f"the workdir holds points of {pages.listed(bases)}; one base has one workdir")
    page = pages.Page(out, "What compression costs", command_line=command_line)
    first = next(iter(records.values()))
    page.rows(rows_of(records, command_line=command_line))
    name, unit, factor = results.named(first["metric"])
    minutes = sum(record["seconds"] for record in records.values()) / 60
    page.add(
        pages.bullets(pages.notes(records, missing=missing)),
        f"The base, `{bases[0]}`, has {factor * first['whole']:.2f}{unit} {name} on `{first['data']}`. Its "
        f"{len(records)} cuts and students were trained in {minutes:.0f} minutes in all, "
        f"on {pages.machines(records.values())}.",
        HOW_TO_READ.format(lost=LOST),
    )
    draw(page.picture("compression.png", "the strongest cut of each method, and its quality"), records)
    page.add(table(records, factor))
    return page.write()


def _shown(strength):
    return ":".join(map(str, strength)) if isinstance(strength, list) else f"{strength:g}"


def main():
    """The program."""
    values = flags.FLAGS
    given = {key: getattr(values, key) for key in ("epochs", "ramp", "seeds", "smoke")}
    found = entries(values.base, **given, train=not values.report_only)
    study.main(found, functools.partial(run, base=values.base), write=write, record=RECORD)


if __name__ == "__main__":
    study.define_flags()
    flags.FLAGS.set_default("seeds", 1)
    flags.DEFINE_string("base", None, "Folder of the run to compress.")
    flags.DEFINE_float("epochs", 2.0, "Epochs of training after a cut.", lower_bound=0)
    flags.DEFINE_integer("ramp", 100, "Steps over which gradual pruning raises the sparsity.", lower_bound=1)
    study.start(main, required=["base"])
