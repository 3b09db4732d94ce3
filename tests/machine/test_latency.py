"""Latencies: calls in turns, and answers that equal the run's own."""

import itertools

import numpy as np
import pytest

from lwt.machine import latency
from lwt.runs import experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_calls_take_turns():
    order, times = [], itertools.count()
    slow = {"a": 0, "b": 0}

    def call(name):
        order.append(name)
        slow[name] += 1
        for _ in range({"a": 1, "b": 3}[name] + (100 if slow[name] == 2 else 0)):  # one round is disturbed
            next(times)

    found = latency.interleaved({n: lambda n=n: call(n) for n in "ab"}, rounds=3, clock=lambda: next(times))
    assert order == list("abababab")
    assert found == {"a": 2, "b": 4}  # the clock itself takes a tick


def test_timed_answers_are_the_runs_own(tiny, tmp_path):
    train.run(tiny({"steps": 2}), str(tmp_path))
    run = experiment.load(tmp_path)
    batch = latency.records(run, 12)  # the test set has 8
    np.testing.assert_array_equal(batch["example"], [*range(8), *range(4)])
    ids = np.asarray(latency.answers(run, batch)[1]())
    _, _, outputs, _ = run.evaluate()
    assert run.tokenizer.decode(ids.tolist()) == [*outputs, *outputs[:4]]


def test_batches_of_different_length_join():
    short, long = np.ones((1, 2), np.int32), np.ones((2, 3), np.int32)
    assert latency._joined([short, long]).tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert latency._joined([np.arange(2), np.arange(1)]).tolist() == [0, 1, 0]
