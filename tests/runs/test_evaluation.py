"""Figures do not depend on how records are batched, and answers come in the order of the records."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import types

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.machine import devices
from lwt.runs import evaluation

X = np.linspace(-1, 1, 7, dtype=np.float32)


class Scale(nn.Module):
    """A model of one weight."""

    @nn.compact
    def __call__(self, batch):
        return batch["x"] * self.param("scale", nn.initializers.ones_init(), ())


class Squares:
    """A task: the mean square of the model's output, and the output itself as the prediction."""

    def evaluate(self, apply, batch):
        real = batch["example"] >= 0
        return {"squares": (real * apply(batch) ** 2).sum(), "count": real.sum()}

    def finish(self, sums):
        return {"loss": sums["squares"] / sums["count"]}

    def predict(self, apply, batch):
        return apply(batch)


def batches(order, *, rows):
    """Batches of the records `order`, the last one padded."""
    order = [*order, *[-1] * (-len(order) % rows)]
    for begin in range(0, len(order), rows):
        example = np.array(order[begin : begin + rows], np.int32)
        yield {"example": example, "x": np.where(example < 0, 9, X[example]).astype(np.float32)}


@pytest.fixture(scope="module")
def evaluator():
    return evaluation.Evaluator(Squares(), Scale(), devices.make_mesh({"data": -1}))


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
def test_losses_are_those_of_all_records(evaluator, rows):
    found = evaluator.losses({"scale": jnp.float32(2)}, batches(range(7), rows=rows))
    assert found["loss"] == pytest.approx(np.mean((2 * X) ** 2), rel=1e-6)


@pytest.mark.parametrize("order", [range(7), [3, 1, 6, 0, 5, 2, 4]])
def test_predictions_are_in_the_order_of_the_records(evaluator, order):
    found = evaluator.predictions({"scale": jnp.float32(3)}, batches(order, rows=3), count=7)
    np.testing.assert_allclose(found, 3 * X, rtol=1e-6)
    one, *others = batches(order, rows=3)
    parts = None
    for part in ([one], others):
        parts = evaluator.predictions({"scale": jnp.float32(3)}, part, count=7, found=parts)
    np.testing.assert_array_equal(parts, found)


@pytest.mark.parametrize("rows, count", [(8, 3), (2, 3), (6, 3), (1, 8)])
def test_a_batch_is_padded_to_a_multiple_of_the_devices(evaluator, monkeypatch, rows, count):
    (batch, *_) = batches(range(rows), rows=rows) if rows < 8 else batches([*range(7), 0], rows=8)
    monkeypatch.setattr(evaluator, "_mesh", type("Mesh", (), {"shape": {"data": count}}))
    monkeypatch.setattr(devices, "by_rows", lambda mesh: None)
    monkeypatch.setattr(devices, "put_rows", lambda batch, rows: batch)
    placed = evaluator._placed(batch)
    assert len(placed["x"]) % count == 0 and len(placed["x"]) - rows < count
    for name, array in batch.items():
        np.testing.assert_array_equal(placed[name][:rows], array)
    assert (placed["example"][rows:] == -1).all() and not placed["x"][rows:].any()


@dataclasses.dataclass(frozen=True)
class Powers(Squares):
    """Squares, scaled by a number of the task's own."""

    factor: float = 1.0

    def predict(self, apply, batch):
        return self.factor * apply(batch)


def test_evaluators_of_equal_tasks_and_models_compile_once():
    traced = []

    class Traced(Scale):
        def __call__(self, batch):
            traced.append(batch)
            return super().__call__(batch)

    mesh = devices.make_mesh({"data": -1})
    for factor, scale in ((1.0, 2.0), (1.0, 3.0), (2.0, 3.0)):
        made = evaluation.Evaluator(Powers(factor), Traced(), mesh)
        found = made.predictions({"scale": jnp.float32(scale)}, batches(range(7), rows=7), count=7)
        np.testing.assert_allclose(found, factor * scale * X, rtol=1e-6)
    assert len(traced) == 2, "once for each task, whatever the weights"


class Copies:
    """A task that answers with its source, and records whether ended rows would leave the batch."""

    def __init__(self):
        self.shrunk = []

    def generate(self, apply, batch, *, length, vocabulary, shrink):
        self.shrunk.append(shrink)
        return batch["source"]


def test_rows_that_have_ended_leave_the_batches_of_a_frequent_shape(monkeypatch):
    monkeypatch.setattr(evaluation, "OFTEN", 2)
    task, tokenizer = Copies(), types.SimpleNamespace(pieces=9, decode=lambda ids: ids)
    often = evaluation.Evaluator(task, Scale(), devices.make_mesh({"data": -1}))
    sizes = [4, 4, 2, 4, 4, 2]  # the fourth batch is the third of its shape
    given = [{"example": np.array([i]), "source": np.full((1, size), i)} for i, size in enumerate(sizes)]
    found = often.texts({"scale": jnp.float32(1)}, given, tokenizer=tokenizer, count=len(given), max_length=9)
    assert found == [batch["source"][0].tolist() for batch in given]
    assert task.shrunk == [False, False, True], "one program for each shape, and one more for the frequent shape"


THREE = """
import jax, numpy as np
from lwt.machine import devices
from lwt.runs import evaluation
from tests.runs import test_evaluation as t

assert jax.device_count() == 3
evaluator = evaluation.Evaluator(t.Squares(), t.Scale(), devices.make_mesh({"data": -1}))
weights = {"scale": jax.device_put(np.float32(2), jax.devices()[0])}  # as those of a checkpoint
loss = evaluator.losses(weights, t.batches(range(7), rows=8))["loss"]
np.testing.assert_allclose(loss, np.mean((2 * t.X) ** 2), rtol=1e-6)
found = evaluator.predictions(weights, t.batches(range(7), rows=2), count=7)
np.testing.assert_allclose(found, 2 * t.X, rtol=1e-6)
"""


def test_three_devices_give_the_figures_of_one():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=3"}
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", THREE], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
