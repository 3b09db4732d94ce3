"""The same search of the learning rate for every setting of a study, so that no method is tuned better than another.

Every search tries `TRIALS` rates: the three of `FIRST`, a factor of 4 apart, and then two more. If the best rate so far
is the lowest or the highest one, the next trial lies a factor of 4 outside; otherwise halfway between the best and its
farther neighbour, of two equally far ones the better. A trial is a run with a folder of its own, ``SEARCH/rate0.004``,
and is resumed like any other. A rate that diverges is a trial like the others, and never chosen.
"""

import dataclasses
import json
import logging
import math
import os

from lwt import errors
from lwt.report import records, study
from lwt.runs import checkpoint, run_config

LOG = logging.getLogger(__name__)
FIRST = (2e-3, 8e-3, 3.2e-2)
TRIALS = 5
TRIAL = os.path.join("eval", "trial.json")


def run(entry, workdir, *, record, config_of, measure, metric, lower=False, first=FIRST, trials=TRIALS):
    """Searches the rate of `entry` unless that is done; returns its record. A search of fewer trials goes on.

    Args:
        entry: a `study.Entry` whose spec names no rate.
        workdir: of the study.
        record: path of the record in the folder of the search.
        config_of: ``(spec) -> config`` of a trial, which is a run like those of the study, or shorter.
        measure: ``(folder) -> {figure: value}`` of a finished trial, on the validation set.
        metric: the figure that chooses.
        lower: whether low values are good, as for a loss.
        first: the rates to begin with, ascending, a factor of 4 apart.
        trials: number of rates that are tried, at least those of `first`.

    Returns:
        The record: ``arguments``, ``config``, ``metric``, ``tried`` (``[{"rate": ..., figure: value, ...}]``, sorted by
        rate; without figures where training diverged) and ``rate``, the best one.

    Raises:
        lwt.errors.DataError: training diverged at every rate.
        lwt.errors.LwtError: as `study.run` does.
    """
    folder, config = os.path.join(workdir, entry.name), config_of(entry.spec)
    kept = study.read_record(folder, record)
    tried = {}
    if kept and not records.differs(folder, config, length=True):
        if len(kept["tried"]) >= trials:
            return kept
        tried = {trial.pop("rate"): trial for trial in kept["tried"]}
    run_config.keep(config, folder)
    while len(tried) < trials:
        rate = following(scores(tried, metric, lower=lower), first)
        tried[rate] = _trial(entry, folder, rate, config_of=config_of, measure=measure)
        LOG.info("%s: rate %g: %s", entry.name, rate, json.dumps(tried[rate]) if tried[rate] else "diverged")
    best = best_of(scores(tried, metric, lower=lower))
    if best is None:
        raise errors.DataError(f"{folder}: training diverged at every rate from {min(tried):g} to {max(tried):g}")
    listed = [{"rate": rate, **tried[rate]} for rate in sorted(tried)]
    found = {"arguments": entry.arguments, "config": entry.spec, "metric": metric, "tried": listed, "rate": best}
    study.write_record(folder, found, record=record)
    return found


def of_rates(entry, workdir, *, rates, record, config_of, metric, lower=False, trials=0):
    """Tries the `rates` first, judged by `best_figures`; 0 trials are the `rates` alone.

    Otherwise as `run`, but `config_of` is ``entry -> config``.
    """
    return run(
        entry,
        workdir,
        record=record,
        config_of=lambda spec: config_of(dataclasses.replace(entry, spec=spec)),
        measure=best_figures,
        metric=metric,
        lower=lower,
        first=rates,
        trials=trials or len(rates),
    )


def at_best(entry, found):
    """The `study.Entry` at the rate that the record `found` of a search names."""
    return dataclasses.replace(entry, spec=f"{entry.spec},rate={found['rate']:g}")


def _trial(entry, folder, rate, *, config_of, measure):
    """The figures of one rate; {} if training diverged."""
    name, spec = f"rate{rate:g}", f"{entry.spec},rate={rate:g}"
    own = study.Entry(name, {**entry.arguments, "rate": rate}, spec)
    diverged = {"figures": {}}
    place, config = os.path.join(folder, name), config_of(spec)
    if study.read_record(place, TRIAL) == diverged and not records.differs(place, config, length=True):
        return {}
    try:
        found = study.run(own, folder, measure=lambda _, at: {"figures": measure(at)}, record=TRIAL, config=config)
    except errors.NotFinite as error:
        LOG.info("%s", error)
        study.write_record(place, diverged, record=TRIAL)
        return {}
    return found["figures"]


def scores(tried, metric, *, lower=False):
    """``{rate: score}``, high is good: of ``{rate: figures}``; a trial without finite figures has the score -inf."""
    found = {}
    for rate, figures in tried.items():
        value = figures.get(metric, math.nan)
        found[rate] = -math.inf if not math.isfinite(value) else -value if lower else value
    return found


def best_of(scored):
    """The rate with the best score, of equals the lowest; None if no score is finite."""
    finite = {rate: score for rate, score in sorted(scored.items()) if score > -math.inf}
    return max(finite, key=finite.get) if finite else None


def following(scored, first=FIRST):
    """The rate to try next, from ``{rate: score}`` so far; see the module."""
    for rate in first:
        if rate not in scored:
            return rate
    rates = sorted(scored)
    best = best_of(scored)
    best = rates[0] if best is None else best  # all of them diverged: a lower one
    if best == rates[0]:
        return best / 4
    if best == rates[-1]:
        return best * 4
    at = rates.index(best)
    side = max(rates[at - 1], rates[at + 1], key=lambda side: (round(abs(math.log2(side / best)), 3), scored[side]))
    return round_rate(math.sqrt(best * side))


def round_rate(rate):
    """The rate with six digits, so that its folder's name says it exactly."""
    return float(f"{rate:.6g}")


def interpolated(found, size):
    """The rate for a size that was not searched: on the line through its neighbours, both axes logarithmic.

    Args:
        found: ``{size: rate}`` of the searched sizes.
        size: beyond them, it gets the rate of the nearest one.
    """
    sizes = sorted(found)
    if size <= sizes[0] or size >= sizes[-1]:
        return found[sizes[0] if size <= sizes[0] else sizes[-1]]
    high = next(x for x in sizes if x >= size)
    low = sizes[sizes.index(high) - 1]
    share = math.log(size / low) / math.log(high / low)
    return round_rate(found[low] ** (1 - share) * found[high] ** share)


def best_figures(folder):
    """The figures ``{name: float}`` of a finished trial: those of its best evaluation on the validation set."""
    saved = checkpoint.of_run(folder)
    return {name: value for name, value in saved.metrics(saved.best_step()).items() if isinstance(value, float)}
