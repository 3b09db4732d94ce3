"""Scores of heads and hidden units equal finite differences; masks follow their order."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.compress import gates
from lwt.models import bert, seq2seq, vit
from lwt.tasks import classify, translate

SMALL = dict(width=16, heads=2, hidden=12)
KEYS = ("source", "inputs", "targets")


def translation():
    """A translator, and a batch of two pairs of different length and a filler row."""
    ids = jax.random.randint(jax.random.key(1), (3, 3, 6), 3, 40)
    real = jnp.array([[1] * 6, [1, 1, 1, 1, 0, 0], [0] * 6])
    batch = {key: row * real for key, row in zip(KEYS, ids)}
    for side in ("source", "target"):
        batch |= {f"{side}_segments": real, f"{side}_positions": jnp.tile(jnp.arange(6), (3, 1))}
    model = seq2seq.Seq2Seq(vocabulary=40, encoder_layers=1, decoder_layers=2, **SMALL)
    return model, translate.Translate(), batch | {"example": np.array([0, 1, -1])}


def images():
    """A classifier of images, and a batch of two."""
    batch = {
        "image": jax.random.normal(jax.random.key(3), (2, 4, 4, 3)),
        "weight": jnp.ones(2),
        "label": jnp.array([1, 0]),
    }
    return vit.ViT(image_size=4, layers=2, **SMALL), classify.Classify(), batch


def classification():
    """A classifier and a batch of three texts."""
    model = bert.Bert(vocabulary=40, layers=2, head="classify", outputs=3, **SMALL)
    ids = jax.random.randint(jax.random.key(2), (3, 5), 3, 40)
    segments = jnp.array([[1] * 5, [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])
    return model, classify.Classify(), {"ids": ids, "segments": segments, "label": jnp.array([0, 2, 1])}


TASK64 = {translation: {"dtype": "float64"}}  # operands of the task's own product


def experiment_of(made):
    """A run with random weights, with what `gates` needs of it."""
    model, task, batch = made
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])
    generator = np.random.default_rng(0)
    weights = {n: jnp.asarray(generator.normal(0, 0.3, w.shape), w.dtype) for n, w in shapes.items()}
    config = types.SimpleNamespace(model=types.SimpleNamespace(name="made up"))
    return types.SimpleNamespace(model=model, task=task, weights=weights, workdir="a run", config=config), batch


@pytest.fixture
def float64(monkeypatch):
    """Runs the models in float64, by renaming their float32."""
    monkeypatch.setattr(jnp, "float32", jnp.float64)
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("made", "kind"), [(translation, "heads"), (translation, "units"), (images, "heads")])
def test_scores_are_finite_differences_of_every_examples_loss(made, kind, float64):
    model, task, batch = made()
    experiment, batch = experiment_of(
        (model.clone(dtype="float64"), dataclasses.replace(task, **TASK64.get(made, {})), batch)
    )
    found = gates.scores(experiment, kind, batches=[batch])
    assert set(found) == set(gates.prunable(experiment, kind))
    rows = len(next(iter(batch.values())))
    real = int((batch["example"] >= 0).sum()) if "example" in batch else rows

    @jax.jit
    def losses(weights):
        def loss(row):
            apply = functools.partial(experiment.model.apply, {"params": trees.unflatten(weights)})
            return experiment.task.loss(apply, jax.tree.map(lambda x: x[None], row), train=False)[0]

        return jax.vmap(loss)(jax.tree.map(jnp.asarray, batch))

    def at(name, i, size, factor):
        kernel = experiment.weights[gates.kernel_of(name, kind)]
        gate = np.repeat(np.where(np.arange(size) == i, factor, 1.0), len(kernel) // size)
        return np.asarray(losses(experiment.weights | {gates.kernel_of(name, kind): kernel * gate[:, None]}))

    step = 1e-5
    for name, values in found.items():
        for i in range(0, len(values), 1 if kind == "heads" else 5):
            slopes = (at(name, i, len(values), 1 + step) - at(name, i, len(values), 1 - step)) / (2 * step)
            assert values[i] == pytest.approx(np.abs(slopes).sum() / real, rel=1e-6, abs=1e-9), (name, i)


def test_scores_over_positions_sum_absolute_values():
    made = classification()
    experiment, batch = experiment_of(made)
    name = "block_0/self_attention"
    kernel, seen = experiment.weights[f"{name}/out/kernel"], {}

    def loss(added, weights):
        class Adding(gates.Gated):
            def matmul(self, x, dtype):
                seen["context"] = x
                return (x + added) @ kernel

        gated = weights | {f"{name}/out/kernel": Adding(kernel, jnp.ones((3, 2)))}
        apply = functools.partial(experiment.model.apply, {"params": trees.unflatten(gated)})
        return experiment.task.loss(apply, batch, train=False)[0], seen["context"]

    gradient, context = jax.jit(jax.grad(loss, has_aux=True))(jnp.zeros((15, 16)), experiment.weights)
    dots = (gradient * context).reshape(3, 5, 2, 8).sum(-1)
    each, whole = (
        gates.scores(experiment, "heads", batches=[batch], over=over)[name] for over in ("positions", "examples")
    )
    np.testing.assert_allclose(each, np.abs(dots).sum((0, 1)) / 3, rtol=1e-4)
    np.testing.assert_allclose(whole, np.abs(dots.sum(1)).sum(0) / 3, rtol=1e-4)
    assert (each > whole).all()


def test_order_and_masks():
    scores = {"a": np.array([3.0, 1.0]), "b": np.array([0.5, 2.0, 9.0])}
    assert gates.order(scores) == [("b", 0), ("a", 1), ("b", 1), ("a", 0), ("b", 2)]
    keep = gates.drop_least(scores, 0.6)
    assert {name: kept.tolist() for name, kept in keep.items()} == {"a": [True, False], "b": [False, False, True]}
    assert np.linalg.norm(gates.normalised(scores)["b"]) == pytest.approx(1)
    assert gates.order(gates.normalised(scores))[-1] == ("b", 2)


def test_a_model_without_heads_is_refused():
    experiment, _ = experiment_of(classification())
    experiment.model = types.SimpleNamespace()
    with pytest.raises(errors.ConfigError, match="cannot remove heads of model.name='made up': it has none"):
        gates.scores(experiment, "heads", batches=[])


def test_scores_without_records_or_order_are_refused():
    model, task, batch = images()
    weights = trees.flatten(model.init(jax.random.key(0), model.example())["params"])
    run = types.SimpleNamespace(model=model, task=task, weights=weights, workdir="run")
    with pytest.raises(errors.DataError, match="no records to score the heads on"):
        gates.scores(run, "heads", batches=[])
    with pytest.raises(errors.NotFinite, match="the scores of block_1/attention are not finite"):
        gates.order({"block_0/attention": np.ones(2), "block_1/attention": np.array([1, np.nan])})
