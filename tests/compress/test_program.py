"""The shell of the compression programs: it opens a run, writes a new one, and prints its figures last."""

import json
import os
import subprocess
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags

import lwt
from lwt import errors
from lwt.compress import program, sparsify
from lwt.machine import command_line


def test_a_program_writes_what_its_function_writes(untrained, tiny, tmp_path):
    run = untrained(tiny(), tmp_path / "run")
    wanted, done = sparsify.sparsify(run, tmp_path / "function", sparsity=0.5)
    arguments = [f"--workdir={run.workdir}", f"--out={tmp_path}/program", "--sparsity=0.5"]
    command = [sys.executable, "-m", "lwt.compress.sparsify", *arguments]
    output = subprocess.run(command, env=os.environ | {"PYTHONPATH": os.getcwd()}, capture_output=True, text=True)
    assert output.returncode == 0, output.stderr
    assert json.loads(output.stdout.splitlines()[-1]) == {"workdir": f"{tmp_path}/program", **done}
    written = lwt.load(tmp_path / "program").weights
    assert all(np.array_equal(leaf, written[name]) for name, leaf in wanted.weights.items())


def test_a_weight_that_is_not_finite_is_named(monkeypatch):
    opened = types.SimpleNamespace(weights={"a/kernel": jnp.ones(2), "b/kernel": jnp.array([1, jnp.nan])})
    given = types.SimpleNamespace(workdir="runs/mt", checkpoint="best", base="", out="out")
    monkeypatch.setattr(flags, "FLAGS", given)
    monkeypatch.setattr(lwt, "load", lambda *_, **__: opened)
    monkeypatch.setattr(command_line, "define_run", lambda **_: None)
    monkeypatch.setattr(command_line, "run", lambda main, **_: main())
    with pytest.raises(errors.NotFinite, match="runs/mt: the weight b/kernel is not finite"):
        program.run(lambda *_: {})
