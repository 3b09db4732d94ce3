"""The shell of the compression programs: it opens a run, writes a new one, and prints its figures last."""

import json
import os
import subprocess
import sys

import numpy as np

import lwt
from lwt.compress import sparsify


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
