"""How long models take on the machine at hand: they take turns, A B A B, and the median of the rounds counts.

What else the machine does at the time slows a round, and not one model: a median of turns bears that better than one
long measurement a model.
"""

import functools
import statistics
import time

import jax
import numpy as np

from lwt import trees

ALONE = 4  # records that are timed one by one


def interleaved(calls, *, rounds=7, clock=time.perf_counter):
    """``{name: median seconds of a call}``.

    Args:
        calls: ``{name: function}`` without arguments, which waits for its result; called once before it is timed.
        rounds: turns of each.
        clock: tells seconds.
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


def records(opened, count, *, name=""):
    """Records of a data set as one batch of arrays `[count ...]`, all as long as the longest of them.

    Args:
        opened: an `experiment.Experiment`.
        count: how many; fewer are repeated.
        name: ``KIND:NAME@SPLIT``; "" for the run's test set.
    """
    found = []
    for batch in opened.batches(name or opened.test, limit=count):
        real = batch["example"] >= 0
        found.append({key: np.asarray(value)[real] for key, value in batch.items()})
    joined = {key: _stacked([batch[key] for batch in found]) for key in found[0]}
    order = np.argsort(joined["example"])
    return {key: np.take(value[order], np.arange(count) % len(order), axis=0) for key, value in joined.items()}


def _stacked(arrays):
    """Arrays one below the other, with zeros up to the longest second axis."""
    if arrays[0].ndim < 2:
        return np.concatenate(arrays)
    longest = max(a.shape[1] for a in arrays)
    rest = [(0, 0)] * (arrays[0].ndim - 2)
    return np.concatenate([np.pad(a, [(0, 0), (0, longest - a.shape[1]), *rest]) for a in arrays])


def answers(opened, batch):
    """Two functions that answer, as `opened` does, the first `ALONE` rows of a batch one by one, and all at once.

    Args:
        opened: an `experiment.Experiment`; its weights are multiplied from what it holds (integers, factors).
        batch: from `records`.
    """
    task, more = opened.task, {}
    if hasattr(task, "generate"):
        length = min(opened.config.data.max_tokens + 1, batch["source"].shape[1] * 3 // 2 + 16)
        more = {"length": length, "vocabulary": opened.tokenizer.pieces}
    answer = task.generate if more else task.predict

    @jax.jit
    def program(weights, batch):
        return answer(functools.partial(opened.model.apply, {"params": trees.unflatten(weights)}), batch, **more)

    weights, batch = jax.device_put((opened.weights, batch))
    rows = [{key: x[i : i + 1] for key, x in batch.items()} for i in range(min(ALONE, len(batch["example"])))]
    alone = lambda: [jax.block_until_ready(program(weights, row)) for row in rows]  # noqa: E731
    together = lambda: jax.block_until_ready(program(weights, batch))  # noqa: E731
    return alone, together


def of_runs(opened, *, rows=64, rounds=7):
    """``{name: (seconds of a record alone, seconds of a batch of `rows`)}`` of opened runs by name.

    Texts are decoded until all of a batch have ended: a model of longer answers takes longer.
    """
    pairs = {name: answers(one, records(one, rows)) for name, one in opened.items()}
    alone = interleaved({name: pair[0] for name, pair in pairs.items()}, rounds=rounds)
    together = interleaved({name: pair[1] for name, pair in pairs.items()}, rounds=rounds)
    return {name: (alone[name] / min(ALONE, rows), together[name]) for name in pairs}
