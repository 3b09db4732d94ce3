"""Masked language modelling with next sentences equals the plain formula over all positions."""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt import errors
from lwt.tasks import masked_lm

B, T, M, D, V = 6, 10, 4, 8, 24


def toy_model(params):
    """The `apply` of an encoder with the methods that the task calls."""

    def apply(*args, method=None, train=False, rngs=None):
        if method == "hidden_states":
            return jnp.tanh(params["embed"][args[0]["ids"]] @ params["mix"])
        if method == "output_layer":
            return params["kernel"].T, params["bias"]
        assert method == "next_sentence"
        return args[0][:, 0] @ params["next"]

    return apply


def problem():
    rng = np.random.default_rng(0)
    shapes = {"embed": (V, D), "mix": (D, D), "kernel": (D, V), "bias": (V,), "next": (D, 2)}
    params = {name: jnp.asarray(rng.normal(size=shape), jnp.float32) for name, shape in shapes.items()}
    batch = {
        "ids": rng.integers(0, V, (B, T)),
        "segments": (np.arange(T) < rng.integers(5, T + 1, (B, 1))).astype("i4"),
        "masked_positions": np.stack([rng.permutation(5)[:M] for _ in range(B)]),
        "masked_targets": rng.integers(0, V, (B, M)),
        "masked_weights": (np.arange(M) < rng.integers(1, M + 1, (B, 1))).astype("f4"),
        "next_sentence": rng.integers(0, 2, B),
    }
    for name in ("segments", "masked_weights"):
        batch[name][-1] = 0  # a filler row
    return params, batch


def reference(params, batch):
    """The two means and accuracies, from the logits of all positions."""
    real = batch["segments"][:, 0] > 0
    hidden = jnp.tanh(params["embed"][batch["ids"]] @ params["mix"])
    logits = (hidden @ params["kernel"] + params["bias"])[np.arange(B)[:, None], batch["masked_positions"]]
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, batch["masked_targets"])
    right = logits.argmax(-1) == batch["masked_targets"]
    w = batch["masked_weights"]
    next_logits = (hidden[:, 0] @ params["next"])[np.flatnonzero(real)]
    next_nll = optax.softmax_cross_entropy_with_integer_labels(next_logits, batch["next_sentence"][real])
    return {
        "mlm_loss": (w * nll).sum() / w.sum(),
        "mlm_accuracy": (w * right).sum() / w.sum(),
        "nsp_loss": next_nll.mean(),
        "nsp_accuracy": (next_logits.argmax(-1) == batch["next_sentence"][real]).mean(),
    }


def test_loss_divided_once_is_the_sum_of_both_means():
    params, batch = problem()
    task = masked_lm.MaskedLm(chunk=12)

    def ours(params):
        value, count, _ = task.loss(toy_model(params), batch)
        return value / count

    def theirs(params):
        return sum(reference(params, batch)[name] for name in ("mlm_loss", "nsp_loss"))

    assert float(ours(params)) == pytest.approx(float(theirs(params)), rel=1e-6)
    for mine, right in zip(*(jax.tree.leaves(jax.jit(jax.grad(f))(params)) for f in (ours, theirs)), strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-6)


def test_figures_do_not_depend_on_batching():
    params, batch = problem()
    task = masked_lm.MaskedLm()
    evaluate = jax.jit(lambda batch: task.evaluate(toy_model(params), batch))
    parts = [jax.tree.map(lambda x, rows=rows: x[rows], batch) for rows in (slice(0, 1), slice(1, B))]
    figures = task.finish(jax.tree.map(operator.add, *map(evaluate, parts)))
    wanted = {name: float(value) for name, value in reference(params, batch).items()}
    wanted |= {
        "loss": wanted["mlm_loss"] + wanted["nsp_loss"],
        "mlm_perplexity": np.exp(wanted["mlm_loss"]),
        "masked": batch["masked_weights"].sum(),
        "examples": B - 1,
    }
    assert figures == pytest.approx(wanted, rel=1e-5)
    sums = evaluate(batch)
    assert float(sums["tokens"]) == batch["segments"].sum() and all(value.shape == () for value in sums.values())


def test_a_batch_without_masks_trains_the_next_sentence_alone():
    params, batch = problem()
    batch["masked_weights"] *= 0
    value, count, sums = masked_lm.MaskedLm().loss(toy_model(params), batch)
    assert float(value / count) == pytest.approx(float(reference(*problem())["nsp_loss"]), rel=1e-6)
    found = masked_lm.MaskedLm().finish(sums)
    assert math.isnan(found["mlm_loss"]) and math.isnan(found["mlm_perplexity"]) and found["masked"] == 0
    assert found["nsp_loss"] == pytest.approx(float(reference(*problem())["nsp_loss"]), rel=1e-6)
    with pytest.raises(errors.DataError, match="no records: the split is empty"):
        masked_lm.MaskedLm().finish({**sums, "examples": 0.0})
