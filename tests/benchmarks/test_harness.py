"""Workers, their turns, and what they say when they fail."""

import pathlib
import subprocess
import sys

import pytest

from benchmarks import harness
from tests.benchmarks import worker


def test_a_worker_does_not_outlive_a_start_that_fails(monkeypatch):
    def interrupted(started_worker):
        started.append(started_worker.process)
        raise KeyboardInterrupt

    started = []
    monkeypatch.setattr(harness.Worker, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        harness.Worker("a", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert started[0].poll() is not None


def test_a_worker_that_ends_is_named_with_its_last_line(capfd):
    program = "import sys; sys.exit('more\\nerror: unrecognized arguments: --sice=3')"
    with pytest.raises(harness.WorkerError, match="^variant a ended with 1: error: unrecognized arguments: --sice=3$"):
        harness.Worker("a", [sys.executable, "-c", program])
    assert capfd.readouterr().err == "more\n"
    with pytest.raises(harness.WorkerError, match="^variant a ended with 0$"):
        harness.Worker("a", [sys.executable, "-c", ""])


@pytest.mark.parametrize("device, started", [("cpu", [1, 2]), ("gpu", [2, 2])])
def test_on_a_gpu_workers_compile_beside_each_other(monkeypatch, device, started):
    """``started`` holds how many workers there are when each of them is waited for."""
    workers, waited, ready, popen = [], [], harness.Worker.ready, subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: workers.append(k["env"]) or popen(*a, **k))
    monkeypatch.setattr(harness.Worker, "ready", lambda worker: waited.append(len(workers)) or ready(worker))
    chosen = dict.fromkeys("ab", [sys.executable, "-c", worker.PROGRAM])
    given = dict(failures={}, report=lambda text: None)
    with harness.started(chosen, device=device, **given) as opened:
        lines = harness.interleave(opened, rounds=1, steps=1, pause=0, **given)
    assert not given["failures"] and [line["examples_per_second"] for line in lines] == [2.0, 2.0]
    assert waited == started
    assert {env["JAX_PLATFORMS"] for env in workers} == {{"cpu": "cpu", "gpu": "cuda"}[device]}


@pytest.mark.parametrize("ending", ["", "sys.exit('no memory')"])
def test_a_second_start_finds_what_the_first_one_compiled(ending):
    """Both are measured for speed. If the second start fails, the figures of the first one stay."""
    begin = f"""
import os, pathlib
kept = pathlib.Path(os.environ["JAX_COMPILATION_CACHE_DIR"], "program")
found = kept.exists()
kept.parent.mkdir(exist_ok=True)
kept.touch()
if found:
    {ending or "pass"}
"""
    program = begin.replace("import os", "import os, sys") + worker.PROGRAM.replace(
        '"peak_bytes": 5', '"peak_bytes": 9 - 4 * found'
    )
    given = dict(failures={}, report=lambda text: None)
    with harness.started({"a": [sys.executable, "-c", program]}, **given) as opened:
        folder = pathlib.Path(opened["a"].environment["JAX_COMPILATION_CACHE_DIR"])
        assert folder.is_dir()
        [line] = harness.interleave(opened, rounds=1, steps=1, pause=0, again=True, **given)
    assert not folder.exists() and line["peak_bytes"] == 9
    assert (line["rounds"], line.get("second_peak_bytes")) == ((1, None) if ending else (2, 5))
    assert given["failures"] == ({"a": "variant a ended with 1: no memory"} if ending else {})
