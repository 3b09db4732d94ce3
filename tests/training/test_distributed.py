"""The same losses on one device, on eight, and in two processes; and what a step must not do."""

import json
import os
import socket

import jax
import jax.extend
import numpy as np
import pytest

from lwt import trees
from lwt.runs import checkpoint
from lwt.training import build, loop, train

SHARDED = ((r".*/(kernel|embedding|a|b)", ("data",)), (r".*", ()))  # FSDP: a slice of every matrix on each device
EIGHT = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8", "NPROC": "16"}
LORA = {"reparam": {"name": "lora", "rank": 2, "dropout": 0.1}, "optimizer.trainable": ("adapter/.*",)}


@pytest.fixture(scope="module")
def lora(tiny, untrained, tmp_path_factory):
    """Changes of a config that adapts a base."""
    return {**LORA, "init_from": untrained(tiny(), tmp_path_factory.mktemp("runs") / "base").workdir}


# Trains two runs on simulated devices; prints how many there are, the share of a kernel that lies on one, and what a
# step sends, in multiples of the weights. The table counts three times: its gradients come from both sides' texts and
# from the loss.
CHILD = """
import json, sys
import jax, ml_collections
from lwt.machine import devices
from lwt.training import build, loop
from studies.inspection import scaling

found = {"devices": jax.device_count()}
for name, config in json.loads(sys.argv[1]).items():
    run = build.build(ml_collections.ConfigDict(config), f"{sys.argv[2]}/{name}")
    state = run.init()
    kernel = "base/encoder/layer_0/mlp/fc1/kernel"
    shares = [tree[kernel].addressable_shards[0].data.size / tree[kernel].size
              for tree in (state.trainable, state.opt_state[0].inner_states["rate×1 decay×1"].inner_state[0].mu)]
    batch = devices.put_rows(next(run.batches), run.row_sharding)
    program = run.step.func.lower(state, run.frozen, batch, **run.step.keywords).compile().as_text()
    tables = [leaf.nbytes for name, leaf in state.trainable.items() if name.endswith("embedding")]
    weights = 2 * sum(tables) + sum(leaf.nbytes for leaf in state.trainable.values())
    sent = scaling.sent(program, 8)[1] / weights
    run = build.build(ml_collections.ConfigDict(config), f"{sys.argv[2]}/{name}")
    loop.train(run)
    found[name] = {"shares": shares, "programs": run.step.func._cache_size(), "sent": sent}
print(json.dumps(found))
"""


def assert_same_losses(found, expected, *, tolerance=1e-5):
    assert [row["step"] for row in found] == [row["step"] for row in expected]
    for row, other in zip(found, expected):
        for name in ("train/loss", "train/grad_norm", "train/real_share", "validation/loss"):
            assert row.get(name) == pytest.approx(other.get(name), abs=tolerance), (row["step"], name)


def test_eight_devices_give_the_losses_of_one(tiny, start, rows, tmp_path):
    """With dropout; the weights replicated, and sharded over the devices. Gradients and weights alone are sent."""
    config = tiny()
    train.run(config, tmp_path / "one")
    configs = {"replicated": config.to_dict(), "sharded": tiny({"sharding": SHARDED}).to_dict()}
    process = start("-c", CHILD, json.dumps(configs), str(tmp_path), **EIGHT)
    said, complaints = process.communicate(timeout=300)
    assert process.returncode == 0, complaints
    found = json.loads(said.splitlines()[-1])
    sent = [found[name].pop("sent") for name in ("replicated", "sharded")]
    assert found == {
        "devices": 8,
        "replicated": {"shares": [1.0, 1.0], "programs": 1},
        "sharded": {"shares": [1 / 8, 1 / 8], "programs": 1},
    }
    assert sent[0] < 2 and sent[1] < 3, sent  # gradients are added up: 2 · 7/8; and weights gathered: 7/8
    expected = rows(tmp_path / "one")
    assert_same_losses(rows(tmp_path / "replicated"), expected)
    assert_same_losses(rows(tmp_path / "sharded"), expected)


def test_a_batch_read_twice_stays_on_its_devices(tiny, start, rows, tmp_path):
    """R-Drop: the two copies of a row lie on one device, so that gradients alone are sent."""
    config = tiny({"task.rdrop": 5.0})
    train.run(config, tmp_path / "one")
    process = start("-c", CHILD, json.dumps({"eight": config.to_dict()}), str(tmp_path), **EIGHT)
    said, complaints = process.communicate(timeout=300)
    assert process.returncode == 0, complaints
    found = json.loads(said.splitlines()[-1])["eight"]
    assert found["programs"] == 1 and found["sent"] < 2, found
    assert_same_losses(rows(tmp_path / "eight"), rows(tmp_path / "one"))
    assert all(row["train/divergence"] > 0 for row in rows(tmp_path / "one") if "train/loss" in row)
    assert not any("validation/divergence" in row for row in rows(tmp_path / "one"))


def test_two_processes_give_the_losses_of_one(tiny, lora, config_file, start, rows, tmp_path):
    """An adapter, its matrices sharded over both processes; one process resumes from what two have saved."""
    config = tiny({**lora, "sharding": SHARDED})
    train.run(config, tmp_path / "one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [f"--config={config_file(config)}", f"--workdir={tmp_path}/two", f"--coordinator=127.0.0.1:{port}"]
    both = [start("train.py", *arguments, "--processes=2", f"--process={i}") for i in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert json.loads(said[0][0].splitlines()[-1])["loss"] > 0 and "loss" not in said[1][0], "one of them speaks"
    assert_same_losses(rows(tmp_path / "two"), rows(tmp_path / "one"))
    for name in ("one", "two"):
        train.run(tiny({**lora, "steps": 8}), tmp_path / name)
    assert_same_losses(rows(tmp_path / "two"), rows(tmp_path / "one"))


def test_accumulated_microbatches_are_the_whole_batch(tiny, rows, tmp_path):
    still = {"model.dropout": 0.0, "model.attention_dropout": 0.0, "steps": 4}
    for accumulate in (1, 2):
        train.run(tiny({**still, "optimizer.accumulate": accumulate}), tmp_path / str(accumulate))
    whole = checkpoint.Checkpoints(tmp_path / "1/checkpoints").restore()[0]
    parts = checkpoint.Checkpoints(tmp_path / "2/checkpoints").restore()[0]
    assert_same_losses(rows(tmp_path / "2"), rows(tmp_path / "1"))
    for name, leaf in trees.subtree(whole, "trainable").items():
        if not name.endswith("key/bias"):  # softmax ignores it: its gradient is noise, which Adam blows up
            np.testing.assert_allclose(parts[f"trainable/{name}"], leaf, atol=1e-5, err_msg=name)


def shapes_made(jaxpr):
    """The shapes of all arrays that are computed anywhere in a jaxpr."""
    shapes = set()
    for equation in jaxpr.eqns:
        shapes.update(v.aval.shape for v in equation.outvars)
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            shapes |= shapes_made(inner)
    return shapes


def test_frozen_weights_have_no_gradient_and_no_moments(tiny, lora, tmp_path):
    made = {}
    for name, changes in (("full", {}), ("adapter", lora)):
        run = build.build(tiny({**changes, "model.hidden": 48}), tmp_path / name)
        state = run.init()
        trainable = trees.count(state.trainable)
        scalars = sum(leaf.nbytes for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim == 0)
        assert trees.nbytes(state.opt_state) == 2 * 4 * trainable + scalars and scalars <= 32
        assert (trainable == 9 * 2 * (32 + 32)) == (name == "adapter")
        batch = {key: np.zeros((16, 32), np.int32) for key in next(run.batches)}
        made[name] = shapes_made(jax.make_jaxpr(run.step)(state, run.frozen, batch).jaxpr)
    assert {(32, 48), (48, 32)} <= made["full"], "gradients of fc1 and fc2"
    assert not {(32, 48), (48, 32)} & made["adapter"]


def test_a_run_compiles_its_step_once(tiny, lora, tmp_path):
    """Also when it resumes; and its frozen weights stay as they are."""
    for steps in (5, 8):
        run = build.build(tiny({**lora, "steps": steps}), tmp_path)
        before = {key: np.asarray(leaf) for key, leaf in run.frozen.items()}
        loop.train(run)
        assert run.step.func._cache_size() == 1
        assert all(np.array_equal(run.frozen[key], leaf) for key, leaf in before.items())
