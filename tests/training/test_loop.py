"""The loop takes functions: here it trains a line through points, without config, model or task."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt import errors
from lwt.machine import devices
from lwt.runs import checkpoint
from lwt.training import loop, step


class Batches:
    """Endless rows ``x, y = 2x``; row k is always the same."""

    def __init__(self, spoilt=()):
        self.position, self.spoilt = 0, spoilt

    def __iter__(self):
        return self

    def __next__(self):
        self.position += 1
        x = np.random.default_rng(self.position).normal(size=(4, 1)).astype(np.float32)
        return {"x": x * (np.nan if self.position in self.spoilt else 1), "y": 2 * x}

    def state(self):
        return {"position": self.position}

    def restore(self, state):
        self.position = state["position"]


def loss(trainable, frozen, batch, at, key):
    del frozen, at, key
    total = ((batch["x"] * trainable["slope"] - batch["y"]) ** 2).sum()
    return total, jnp.float32(4), {"loss": total, "tokens": jnp.float32(4), "examples": jnp.float32(4)}


@pytest.fixture
def run(tmp_path):
    """``run(**changes) -> loop.Run`` of ten steps with Adam."""
    optimizer, mesh = optax.adam(0.1), devices.make_mesh({"data": -1})

    def init():
        names = ("loss", "tokens", "examples", "grad_norm", "steps")
        return step.init_state({"slope": jnp.zeros((1,))}, optimizer, seed=0, sums=names)

    (tmp_path / "run").mkdir()
    whole = loop.Run(
        workdir=str(tmp_path / "run"),
        steps=10,
        init=init,
        step=jax.jit(step.make(loss, optimizer), donate_argnums=0),
        frozen={},
        batches=Batches(),
        positions=4,
        row_sharding=devices.by_rows(mesh),
        evaluate=lambda state: {"loss": float(abs(state.trainable["slope"][0] - 2))},
        finish=lambda sums: {"loss": sums["loss"] / sums["tokens"]},
        rate=lambda at: 0.1,
        leaves=("slope",),
        identity={"data": "line"},
        save_adapter=None,
        log_every=2,
        eval_every=5,
        save_every=3,
        keep_last=10,
        select="loss",
        select_mode="min",
    )
    return lambda **changes: dataclasses.replace(whole, **{"batches": Batches(), **changes})


def rows_of(run):
    with open(f"{run.workdir}/metrics.jsonl") as file:
        return [json.loads(line) for line in file]


def slope(run):
    state, _, _ = checkpoint.of_run(run.workdir).restore("last")
    return float(state["trainable/slope"][0])


def test_cadences_of_log_evaluation_and_checkpoints(run):
    whole = run()
    figures = loop.train(whole)
    rows = rows_of(whole)
    assert [row["step"] for row in rows if "train/loss" in row] == [2, 4, 6, 8, 10]
    assert [row["step"] for row in rows if "validation/loss" in row] == [5, 10]
    assert checkpoint.of_run(whole.workdir, keep_last=10).steps() == [3, 5, 6, 9, 10]
    assert figures["loss"] == pytest.approx(abs(slope(whole) - 2)) and 0 < figures["loss"] < 2


def test_a_stopped_run_ends_as_one_that_never_stopped(run, tmp_path):
    (tmp_path / "stopped").mkdir()
    whole, stopped = run(), run(workdir=str(tmp_path / "stopped"), steps=5)
    loop.train(whole)
    loop.train(stopped)
    assert slope(stopped) != slope(whole)
    loop.train(dataclasses.replace(stopped, steps=10, batches=Batches()))
    assert slope(stopped) == slope(whole)


@pytest.mark.parametrize("failing", [5, 10])
def test_a_failed_evaluation_loses_no_step(run, tmp_path, capsys, failing):
    (tmp_path / "failed").mkdir()
    whole, broken = run(), run(workdir=str(tmp_path / "failed"))

    def fail_once(state):
        if int(state.step) == failing and broken.workdir not in failed:
            failed.append(broken.workdir)
            raise errors.DataError("no label is known")
        return whole.evaluate(state)

    failed = []
    broken = dataclasses.replace(broken, evaluate=fail_once)
    loop.train(whole)
    with pytest.raises(errors.DataError, match="no label is known"):
        loop.train(broken)
    assert f"saved step {failing}; the same command evaluates it again" in capsys.readouterr().out
    again = dataclasses.replace(broken, batches=Batches(), evaluate=whole.evaluate, steps=failing, patience=9)
    assert loop.train(again) == loop.train(dataclasses.replace(again, batches=Batches()))
    taken = []
    resumed = dataclasses.replace(
        broken, batches=Batches(), step=lambda state, *others: taken.append(0) or whole.step(state, *others)
    )
    figures = loop.train(resumed)
    assert len(taken) == 10 - failing and slope(broken) == slope(whole)
    evaluated = [[row for row in rows_of(one) if "validation/loss" in row] for one in (whole, broken)]
    assert [row["step"] for row in evaluated[1]] == [5, 10]
    assert [row["validation/loss"] for row in evaluated[0]] == [row["validation/loss"] for row in evaluated[1]]
    assert checkpoint.of_run(broken.workdir).metrics(failing) and figures["loss"] == evaluated[0][-1]["validation/loss"]


def test_steps_before_a_stop_do_not_count_for_the_speed(run, monkeypatch):
    def fail(state):
        raise errors.DataError("step 5")

    monkeypatch.setattr(loop.Clock, "lap", lambda clock: 1.0)
    whole = run(log_every=4)
    with pytest.raises(errors.DataError):
        loop.train(dataclasses.replace(whole, evaluate=fail))
    loop.train(dataclasses.replace(whole, batches=Batches()))
    speeds = {row["step"]: row["train/steps_per_second"] for row in rows_of(whole) if "train/loss" in row}
    assert speeds == {4: 4, 8: 3, 10: 2}
    assert [row["train/tokens_per_second"] for row in rows_of(whole) if row["step"] == 8] == [12]


def test_the_first_step_that_is_not_finite_is_named_and_not_saved(run):
    spoilt = run(batches=Batches(spoilt=(7,)))
    with pytest.raises(errors.NotFinite, match="step 7: .*first in slope"):
        loop.train(spoilt)
    assert checkpoint.of_run(spoilt.workdir).last_step() == 6


def test_fewer_steps_than_done_are_refused(run):
    loop.train(run())
    with pytest.raises(errors.ConfigError, match="steps=3: .* holds a run of 10 steps"):
        loop.train(run(steps=3))


def test_another_identity_is_refused(run):
    loop.train(run())
    with pytest.raises(errors.CheckpointError, match="data"):
        loop.train(run(steps=12, identity={"data": "another"}))


def test_the_adapter_saved_is_that_of_the_best_step(run):
    saved = []
    values = iter([0.5, 0.9])
    whole = run(evaluate=lambda state: {"loss": next(values)}, save_adapter=lambda state: saved.append(int(state.step)))
    loop.train(whole)
    assert saved == [5]
