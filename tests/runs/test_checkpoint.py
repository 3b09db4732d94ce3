"""Checkpoints: what is saved comes back, and what is damaged never does."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.runs import checkpoint


def state(step, *, rows=4):
    weights = {"embed/embedding": jnp.full((rows, 3), float(step)), "norm/scale": jnp.ones((3,), jnp.bfloat16) * step}
    return {"params": weights, "opt": (jnp.int32(step), jnp.zeros((0, 2))), "key": jax.random.key(step)}


def abstract(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)


def fill(folder, steps, *, metrics=None, **options):
    with checkpoint.Checkpoints(folder, **options) as checkpoints:
        for step in steps:
            checkpoints.save(step, state(step), data_state={"next": step}, metrics=metrics and metrics[step])


def payload(folder, step):
    """The largest file of a checkpoint: the arrays themselves."""
    return max((p for p in (folder / str(step) / "state").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "flipped": lambda folder: flip(payload(folder, 2)),
    "truncated": lambda folder: os.truncate(payload(folder, 2), 5),
    "missing": lambda folder: payload(folder, 2).unlink(),
    "data position": lambda folder: flip(folder / "2" / "data" / "metadata"),
    "manifest": lambda folder: flip(folder / "2" / "MANIFEST.json"),
    "no manifest": lambda folder: (folder / "2" / "MANIFEST.json").unlink(),
    "empty folder": lambda folder: (folder / "8").mkdir(),
    "orbax' note": lambda folder: (folder / "2" / "_CHECKPOINT_METADATA").write_text("{"),
    "leftover": lambda folder: (folder / "9.orbax-checkpoint-tmp").mkdir(),
}


def test_what_was_saved_comes_back_bit_for_bit(tmp_path):
    saved = state(7)
    with checkpoint.Checkpoints(tmp_path / "c") as checkpoints:
        checkpoints.save(7, saved, data_state={"epoch": 1, "next": [3, 4]}, wait=True)
    for like in (abstract(saved), None):
        with checkpoint.Checkpoints(tmp_path / "c") as checkpoints:
            restored, data_state, step = checkpoints.restore("last", like)
        assert (step, data_state) == (7, {"epoch": 1, "next": [3, 4]})
        assert like is None or jax.tree.structure(restored) == jax.tree.structure(saved)
        for name, leaf in checkpoint.named(saved).items():
            found = checkpoint.named(restored)[name]
            assert found.dtype == leaf.dtype and jnp.array_equal(found, leaf), name


def test_buffers_may_be_donated_while_the_save_runs(tmp_path):
    update = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    big = np.random.default_rng(0).normal(size=(2_000_000,)).astype(np.float32)
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        arrays = {"w": jnp.array(big)}
        checkpoints.save(1, arrays, data_state={})
        update(arrays["w"]).block_until_ready()
        restored, _, _ = checkpoints.restore(1)
    np.testing.assert_array_equal(restored["w"], big)


@pytest.mark.parametrize("mode, best", [("min", 2), ("max", 3)])
def test_the_last_few_and_the_best_stay(tmp_path, mode, best):
    losses = {1: 5.0, 2: 1.0, 3: 9.0, 4: 3.0, 5: float("nan"), 6: 4.0}
    metrics = {step: {"loss": loss, "signature": "x|y"} for step, loss in losses.items()}
    fill(tmp_path, losses, metrics=metrics, keep_last=2, mode=mode)
    checkpoints = checkpoint.Checkpoints(tmp_path, mode=mode)
    assert checkpoints.steps() == [best, 5, 6] == sorted(int(p.name) for p in tmp_path.iterdir())
    assert (checkpoints.best_step(), checkpoints.last_step()) == (best, 6)
    assert checkpoints.metrics(5) == {"loss": None, "signature": "x|y"}
    assert checkpoints.restore("best")[2] == best


def test_a_saved_step_gets_its_evaluation_figures_later(tmp_path):
    fill(tmp_path, [1])
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.best_step() is None
        checkpoints.add_metrics(1, {"loss": 1.0, "mcc": float("nan")})
        assert checkpoints.metrics(1) == {"loss": 1.0, "mcc": None} and checkpoints.best_step() == 1
        assert checkpoints.restore("best")[2] == 1


@pytest.mark.parametrize("damage", DAMAGE)
def test_last_falls_back_past_damage_and_says_so(tmp_path, damage, caplog):
    fill(tmp_path, [1, 2])
    DAMAGE[damage](tmp_path)
    restored, data_state, step = checkpoint.Checkpoints(tmp_path).restore("last", abstract(state(0)))
    said = [record.getMessage() for record in caplog.records if record.name == checkpoint.__name__]
    harmless = ("empty folder", "leftover", "orbax' note")
    expected = 2 if damage in harmless else 1
    assert step == expected == data_state["next"] and restored["opt"][0] == expected
    assert len(said) == (damage not in harmless[1:]) and all(str(tmp_path) in text for text in said)


def test_a_damaged_step_asked_for_by_number_is_an_error_that_names_the_file(tmp_path):
    fill(tmp_path, [1, 2])
    flip(payload(tmp_path, 2))
    with pytest.raises(errors.CheckpointError, match=payload(tmp_path, 2).name):
        checkpoint.Checkpoints(tmp_path).restore(2)
    flip(tmp_path / "1" / "MANIFEST.json")
    assert checkpoint.Checkpoints(tmp_path).last_step() == 2, "damaged is not the same as not there: no fresh start"
    with pytest.raises(errors.CheckpointError, match="no checkpoint can be restored"):
        checkpoint.Checkpoints(tmp_path).restore("last")


def test_training_goes_on_after_damage(tmp_path):
    fill(tmp_path, [1, 2, 8], keep_last=3)
    flip(payload(tmp_path, 2))
    (tmp_path / "8" / "MANIFEST.json").unlink()
    (tmp_path / "9.orbax-checkpoint-tmp").mkdir()
    with checkpoint.Checkpoints(tmp_path, keep_last=1) as checkpoints:
        assert checkpoints.restore("last")[2] == 1
        checkpoints.save(2, state(20), data_state={}, wait=True)  # the damaged step is written again
        assert [p.name for p in tmp_path.iterdir()] == ["2"]
    assert checkpoint.Checkpoints(tmp_path).restore(2)[0]["opt/0"] == 20


@pytest.mark.parametrize(
    "like, message",
    [
        ({"w": jnp.ones((2, 3)), "z": jnp.ones(1)}, "missing: z"),
        ({}, "unexpected: w"),
        ({"w": jnp.ones((3, 2))}, r"w: \(2, 3\) instead of \(3, 2\)"),
        ({"w": jnp.ones((2, 3), jnp.bfloat16)}, "w: float32 instead of bfloat16"),
    ],
)
def test_another_models_checkpoint_is_refused(tmp_path, like, message):
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"w": jnp.ones((2, 3))}, data_state={})
        with pytest.raises(errors.CheckpointError, match=message):
            checkpoints.restore(1, like)


def test_wrong_requests_are_named(tmp_path):
    fill(tmp_path / "c", [1, 2])
    for folder, step, message in (
        ("none", "last", "there is no checkpoint"),
        ("none", "best", "there is no checkpoint"),
        ("c", 7, "no checkpoint of step 7; saved steps: 1, 2"),
        ("c", "bset", "'bset': it must be"),
    ):
        with pytest.raises(errors.CheckpointError, match=message):
            checkpoint.Checkpoints(tmp_path / folder).restore(step)
    assert not (tmp_path / "none").exists()
    with pytest.raises(errors.ConfigError, match="keep_last=0"):
        checkpoint.Checkpoints(tmp_path, keep_last=0)
    with pytest.raises(errors.ConfigError, match="select_mode='least'"):
        checkpoint.Checkpoints(tmp_path, mode="least")
    with pytest.raises(errors.ConfigError, match="did you mean 'bleu'"):
        checkpoint.Checkpoints(tmp_path, select="blue").save(1, state(1), data_state={}, metrics={"bleu": 1.0})


def test_a_failed_save_is_reported_and_leaves_the_earlier_one(tmp_path, monkeypatch):
    fill(tmp_path, [1])
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        monkeypatch.setattr(checkpoint.manifest, "write", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        checkpoints.save(2, state(2), data_state={})
        with pytest.raises(errors.CheckpointError, match="2: not written: disk full"):
            checkpoints.wait()
        assert checkpoints.restore("last")[2] == 1


@pytest.mark.parametrize("moment", ["writing", "sealing"])
def test_sigkill_during_a_save_leaves_the_earlier_one(tmp_path, moment):
    child = """
        import os, signal, sys
        import numpy as np
        from lwt.runs import checkpoint
        die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        big = lambda step: {"w": np.random.default_rng(step).normal(size=3_000_000)}
        checkpoints = checkpoint.Checkpoints(sys.argv[1])
        checkpoints.save(1, big(1), data_state={}, wait=True)
        if sys.argv[2] == "sealing":
            checkpoint.manifest._digest = die
        checkpoints.save(2, big(2), data_state={})
        die() if sys.argv[2] == "writing" else checkpoints.wait()
    """
    command = [sys.executable, "-c", textwrap.dedent(child), str(tmp_path), moment]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir() if p.name != "1"] == ["2.orbax-checkpoint-tmp"]
    restored, _, step = checkpoint.Checkpoints(tmp_path).restore("last")
    assert step == 1
    np.testing.assert_array_equal(restored["w"], np.random.default_rng(1).normal(size=3_000_000).astype(np.float32))


def test_the_manifest_is_readable_by_people(tmp_path):
    fill(tmp_path, [3], metrics={3: {"loss": 2.5}})
    contents = json.loads((tmp_path / "3" / "MANIFEST.json").read_text())["contents"]
    assert contents["metrics"] == {"loss": 2.5}
    assert contents["leaves"]["params/embed/embedding"] == [[4, 3], "float32"]
