"""Measures how long models take on this machine: they take turns, A B A B, and the median over the rounds counts.

Other load on the machine then slows a round of all models rather than one model.
"""

import functools
import statistics
import time

import jax
import numpy as np

from lwt import trees

ALONE = 4  # records that are timed one at a time


def interleaved(calls, *, rounds=7, clock=time.perf_counter):
    """``{name: median seconds of a call}``.

    Args:
        calls: ``{name: function}`` without arguments, which blocks until its result is ready; called once before
            timing.
        rounds: turns of each.
    """
    for call in calls.values():
        call()
    seconds = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = clock()
            call()
            seconds[name].append(clock() - begin)
    return {name: statistics.median(own) for name, own in seconds.items()}


def records(experiment, count, *, name=""):
    """Records of a data set as one batch of arrays `[count ...]`, padded to the longest of them.

    The data set `name` (``KIND:NAME@SPLIT``; "" for the run's test set) repeats if it has fewer than `count`.
    """
    found = []
    for batch in experiment.batches(name or experiment.test, limit=count):
        real = batch["example"] >= 0
        found.append({key: np.asarray(value)[real] for key, value in batch.items()})
    joined = {key: _joined([batch[key] for batch in found]) for key in found[0]}
    order = np.argsort(joined["example"])
    return {key: np.take(value[order], np.arange(count) % len(order), axis=0) for key, value in joined.items()}


def _joined(arrays):
    """Concatenates arrays along the first axis, after padding the second with zeros to the longest."""
    if arrays[0].ndim < 2:
        return np.concatenate(arrays)
    longest = max(a.shape[1] for a in arrays)
    rest = [(0, 0)] * (arrays[0].ndim - 2)
    return np.concatenate([np.pad(a, [(0, 0), (0, longest - a.shape[1]), *rest]) for a in arrays])


def answers(experiment, batch):
    """Two functions: one answers the first `ALONE` rows of a batch one at a time, the other the whole batch at once.

    Products use the weights of `experiment` as stored (integers, factors); `batch` comes from `records`.
    """
    task, options = experiment.task, {}
    if hasattr(task, "generate"):
        length = min(experiment.config.data.max_tokens + 1, batch["source"].shape[1] * 3 // 2 + 16)
        options = {"length": length, "vocabulary": experiment.tokenizer.pieces}
    answer = task.generate if options else task.predict

    @jax.jit
    def program(weights, batch):
        apply = functools.partial(experiment.model.apply, {"params": trees.unflatten(weights)})
        return answer(apply, batch, **options)

    weights, batch = jax.device_put((experiment.weights, batch))
    rows = [{key: x[i : i + 1] for key, x in batch.items()} for i in range(min(ALONE, len(batch["example"])))]

    def alone():
        return [jax.block_until_ready(program(weights, row)) for row in rows]

    def together():
        return jax.block_until_ready(program(weights, batch))

    return alone, together


def of_runs(experiments, *, rows=64, rounds=7):
    """``{name: (seconds per record alone, seconds per batch of `rows`)}`` of opened runs by name."""
    pairs = {name: answers(experiment, records(experiment, rows)) for name, experiment in experiments.items()}
    alone = interleaved({name: pair[0] for name, pair in pairs.items()}, rounds=rounds)
    together = interleaved({name: pair[1] for name, pair in pairs.items()}, rounds=rounds)
    return {name: (alone[name] / min(ALONE, rows), together[name]) for name in pairs}
