"""A share of the campaign of `docs/design/reliability.md`, and tests of its verdicts."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.campaign import calls, programs


def test_no_promise_is_broken(cache):
    command = [sys.executable, "-m", "tests.campaign", "--kills=1", "--damages=3", "--calls=6"]
    done = subprocess.run(
        command,
        cwd=programs.ROOT,
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": cache},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert (counts["kills"], counts["damages"], counts["calls"]) == (1, 3, 6)
    assert not any(count for name, count in counts.items() if name.endswith("at_fault"))


OUTCOMES = {
    "": programs.Outcome(0, "done", "", 1.0, False),
    "hang": programs.Outcome(-9, "", "", 120.0, True),
    "traceback": programs.Outcome(1, "", "Traceback (most recent call last):\n  File ...\nKeyError: 'a'", 1.0, False),
    "exit code 2 without": programs.Outcome(2, "", "something is wrong", 1.0, False),
    "exit code 3": programs.Outcome(3, "", "", 1.0, False),
}


@pytest.mark.parametrize("fault", OUTCOMES)
def test_faults_are_told_apart(fault):
    found = OUTCOMES[fault].fault
    assert found.startswith(fault) and bool(found) == bool(fault)


def test_a_traceback_counts_even_if_an_error_line_follows():
    both = programs.Outcome(2, "", "Traceback (most recent call last):\n  ...\nerror: no such file", 1.0, False)
    assert both.complaint == "no such file" and both.fault.startswith("traceback")


def test_bad_calls_name_programs_that_exist():
    for program in {case[0] for case in calls.everything()}:
        assert (programs.ROOT / program).is_file() or importlib.util.find_spec(program), program


def test_there_are_at_least_500_bad_calls():
    cases = calls.everything()
    assert len(set(cases)) == len(cases) >= 500
