"""Measures a model's quality as compression methods cut more of it: right after the cut, and after retraining.

    python -m studies.lighter.compression --base=runs/snips --workdir=runs/compression --out=docs/results/compression
    python -m studies.lighter.compression --base=runs/mt --epochs=1 --workdir=runs/mt-cuts --out=cuts --only='svd-'
    python -m studies.lighter.compression --base=runs/a,runs/b,runs/c --seeds=3 --workdir=runs/compression
    python -m studies.lighter.compression --base=runs/snips --workdir=runs/compression --report_only

A point is a method of `cuts.METHODS` at one strength: a cut of the base by `lwt/compress`, and a run that trains it for
``--epochs`` with `configs/lightweight.py`, in a folder such as ``weights-0.8-seed0/``. Gradual pruning is a single run,
whose sparsity rises over the first ``--ramp`` steps. Students start from scratch and train as long as the base did. All
are evaluated on the base's test set. With several bases, the i-th (from 0) is that of seed i.

Every point gets the same search of three rates, ``search-METHOD-STRENGTH``: with seed 0, for half of the training,
judged on the validation set (`lwt/report/search.py`). `lwt/report/study.py` chooses, resumes and reports the points.
"""

import dataclasses
import functools
import os
import re

import jax
import numpy as np
from absl import flags

from lwt.inspect import measuring
from lwt.machine import hardware
from lwt.report import search, searched, study
from lwt.runs import config_file, run_config
from studies.lighter import compression_page, cuts, recipe

CONFIG = "configs/lightweight.py"
RECORD = "compression_study.json"
KERNELS = re.compile(r".*kernel")


@dataclasses.dataclass(frozen=True)
class Point(study.Entry):
    """A method at one strength with a seed, or the search of its rate.

    Attributes:
        base: folder of the run to compress.
        cut: the stage before training, for `recipe.run`: a list of one stage, or of none.
        training: arguments of the config file.
    """

    base: str
    cut: list
    training: dict


def entries(bases, *, epochs, ramp, seeds=1, smoke=False, train=True):
    """The searches, and the points of the study, seed by seed.

    Args:
        bases: folders of the runs to compress: one, or one for each seed.
        epochs: epochs of training after a cut; ramp: steps over which gradual pruning raises the sparsity.
        seeds: number of training seeds.
        smoke: train two steps each.
        train: whether they will be trained; if not, students have no sizes, and the runs need not exist.

    Raises:
        lwt.errors.ConfigError: a run does not exist; or there are several, but not one for each seed.
    """
    bases = searched.per_seed(bases, seeds)
    whole = [run_config.read(base) if train else None for base in bases]
    found = []
    for stage in (searched.SEARCH, *(dict(seed=seed) for seed in range(seeds))):
        seed = stage.get("seed", 0)
        given = dict(base=bases[seed], whole=whole[seed], epochs=epochs, ramp=ramp, smoke=smoke)
        for name, method in cuts.METHODS.items():
            for strength, label in zip(method.strengths, method.labels(), strict=True):
                found.append(_point(dict(method=name, strength=label) | stage, strength, **given))
    return found


def _point(arguments, strength, *, base, whole, epochs, ramp, smoke):
    """One of `entries`; `whole` is the base's config, or None."""
    method, part = cuts.METHODS[arguments["method"]], 0.5 if searched.is_search(arguments) else 1
    training = dict(method.training, seed=arguments.get("seed", 0))
    if method.argument == "width":
        training |= dict(teacher=base)
        if whole:
            training |= narrower(whole.model, strength) | (dict(epochs=part * whole.epochs) if whole.epochs else {})
    else:
        training |= dict(epochs=part * epochs)
        training |= {} if method.cut else dict(base=base, sparsity=strength, ramp=max(1, int(part * ramp)))
    training |= dict(smoke=True) if smoke else {}
    cut = [("cut", method.cut, {method.argument: strength, **method.settings})] if method.cut else []
    return Point(_folder(searched.name_of(arguments)), arguments, study.spec_of(CONFIG, training), base, cut, training)


def _folder(name):
    """A name that folders may have on all systems: ``pattern-2of4-seed0``."""
    return name.replace(":", "of")


def narrower(sizes, share):
    """``{"width", "hidden"}`` of a student, about this share of the teacher's; the width is a multiple of 2 · heads."""
    unit = 2 * sizes.get("heads", 1)
    width = {"width": max(1, round(share * sizes.width / unit)) * unit}
    return width | ({"hidden": max(1, round(share * sizes.hidden))} if "hidden" in sizes else {})


def run(entry, workdir, *, known):
    """Searches a rate; or cuts, trains and evaluates a point, unless it has a record; returns the record.

    Args:
        entry: one of `entries`.
        workdir: of the study.
        known: all entries by name.
    """
    if searched.is_search(entry.arguments):
        return search_rate(entry, workdir)
    folder = os.path.join(workdir, entry.name)
    rate = search_rate(known[_folder(searched.search_of(entry))], workdir)["rate"]
    same = {"arguments": entry.arguments, "config": entry.spec, "base": entry.base, "rate": rate}
    kept = study.read_record(folder, RECORD)
    if kept and {key: kept[key] for key in same} == same:
        return kept
    chain = [*entry.cut, ("trained", "train", entry.training | dict(rate=rate))]
    teacher, *made = recipe.run(chain, entry.base, folder, path=CONFIG)
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


def search_rate(entry, workdir):
    """The record of a search; it cuts the base first if the method does."""
    folder, spec = os.path.join(workdir, entry.name), entry.spec
    kept = study.read_record(folder, RECORD)
    if kept and kept["config"] == spec:
        return kept
    if entry.cut:
        recipe.run(entry.cut, entry.base, folder, path=CONFIG)
        spec += f",base={os.path.join(folder, entry.cut[0][0])}"
    judged = run_config.read(entry.base)
    found = search.of_rates(
        dataclasses.replace(entry, spec=spec),
        workdir,
        rates=cuts.METHODS[entry.arguments["method"]].rates,
        record=RECORD,
        config_of=lambda trial: config_file.load(trial.spec),
        metric=judged.select,
        lower=judged.select_mode == "min",
    )
    found |= {"config": entry.spec}
    study.write_record(folder, found, record=RECORD)
    return found


def kernels(experiment):
    """The number of nonzero values in an experiment's kernels or their factors."""
    chosen = [w for name, w in experiment.weights.items() if KERNELS.fullmatch(name)]
    return int(sum(np.count_nonzero(leaf) for leaf in jax.tree.leaves(chosen)))


def main():
    """The program."""
    values = flags.FLAGS
    given = {key: getattr(values, key) for key in ("epochs", "ramp", "seeds", "smoke")}
    found = entries(values.base, **given, train=not values.report_only)
    known = {entry.name: entry for entry in found}
    write = compression_page.write
    study.main(found, functools.partial(run, known=known), write=write, record=RECORD, config=lambda _: None)


if __name__ == "__main__":
    study.define_flags()
    flags.FLAGS.set_default("seeds", 1)
    flags.DEFINE_list("base", None, "Folder of the run to compress; several, A,B,C, are those of the seeds.")
    flags.DEFINE_float("epochs", 2.0, "Epochs of training after a cut.", lower_bound=0)
    flags.DEFINE_integer("ramp", 100, "Steps over which gradual pruning raises the sparsity.", lower_bound=1)
    study.start(main, required=["base"])
