"""What every worker of the benchmarks does."""

import os

from benchmarks import common


def test_a_worker_keeps_to_as_many_cores_as_it_may_have_threads(monkeypatch):
    given = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 3, 5, 1}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: given.update(cores=cores), raising=False)
    common.limit_cores()
    assert given["cores"] == [1, 3, 5, 7][: common.THREADS]
