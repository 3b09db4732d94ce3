"""Meshes and placements on eight simulated devices, in a process of its own."""

import json
import subprocess
import sys

import jax
import pytest

from lwt import errors
from lwt.machine import devices

PROGRAM = """
import json
import chex
chex.set_n_cpu_devices(8)
import jax
import numpy as np
from lwt.machine import devices

mesh = devices.make_mesh({"data": -1, "model": 2})
rules = ((".*kernel", ("data", None)), (".*wide", (None, "model")), (".*", ()))
tree = {"fc/kernel": np.ones((8, 3)), "odd/kernel": np.ones((6, 3)), "wide": np.ones((3, 4)), "scale": np.ones(())}
placed = devices.put(tree, devices.shardings(mesh, tree, rules=rules))
rows = devices.put_rows({"ids": np.arange(8).reshape(4, 2)}, devices.by_rows(mesh))["ids"]
whole = devices.put({"x": np.arange(3)}, devices.replicated(mesh))["x"]
shape = lambda x: x.addressable_shards[0].data.shape
print(json.dumps({
    "mesh": dict(mesh.shape),
    "shards": {name: shape(x) for name, x in placed.items()},
    "rows": [shape(rows), np.asarray(rows).tolist()],
    "whole": [shape(whole), len(whole.addressable_shards)],
}))
"""


def test_placements_on_eight_devices():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "mesh": {"data": 4, "model": 2},
        "shards": {"fc/kernel": [2, 3], "odd/kernel": [6, 3], "wide": [3, 2], "scale": []},
        "rows": [[1, 2], [[0, 1], [2, 3], [4, 5], [6, 7]]],
        "whole": [[3], 8],
    }


@pytest.mark.parametrize(
    "axes",
    [{}, {"model": -1}, {"data": -1, "model": 0}, {"data": -1, "model": -1}, {"data": 64}, {"data": -1, "model": 3}],
)
def test_a_mesh_must_fit_the_devices(axes):
    with pytest.raises(errors.ConfigError, match=f"does not fit {jax.device_count()} devices"):
        devices.make_mesh(axes)


def test_rules_and_rows_must_fit_the_mesh():
    mesh = devices.make_mesh({"data": -1})
    with pytest.raises(errors.ConfigError, match="the mesh has no axis 'dta'; did you mean 'data'"):
        devices.shardings(mesh, {"w": 0}, rules=((".*", ("dta",)),))
    devices.check_rows(mesh, 3 * jax.device_count(), what="data.rows")
    with pytest.raises(errors.ConfigError, match="data.rows=7 must be a multiple of the 2 devices of mesh.data"):
        devices.check_rows(type("Mesh", (), {"shape": {"data": 2}}), 7, what="data.rows")


def test_a_process_makes_the_rows_of_its_devices():
    devices.check_shares([(0, 0, 2), (0, 2, 4)], 4)
    devices.check_shares([(0, 0, 2), (1, 2, 4)], 4)
    for needed in ([(0, 0, 4), (1, 0, 4)], [(1, 0, 2), (0, 2, 4)]):  # data is not split, or in another order
        with pytest.raises(errors.ConfigError, match="need rows that other processes make; put data first"):
            devices.check_shares(needed, 4)
