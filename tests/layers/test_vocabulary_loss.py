import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt.layers import vocabulary_loss


def problem(b=4, t=8, d=16, v=40):
    rng = np.random.default_rng(0)
    hidden, table = rng.normal(size=(b, t, d)).astype("f4"), rng.normal(size=(v, d)).astype("f4")
    return hidden, table, rng.integers(0, v, (b, t)), (rng.random((b, t)) > 0.3).astype("f4")


def reference(hidden, table, targets, weights, smoothing):
    labels = optax.smooth_labels(jax.nn.one_hot(targets, table.shape[0]), smoothing)
    return (optax.softmax_cross_entropy(hidden @ table.T, labels) * weights).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 8, 512])
def test_value_and_gradients_equal_optax(smoothing, chunk):
    hidden, table, targets, weights = problem()
    ours = lambda h, e: vocabulary_loss.vocabulary_loss(  # noqa: E731
        h, e, targets, weights, smoothing=smoothing, chunk=chunk
    )["loss"]
    theirs = lambda h, e: reference(h, e, targets, weights, smoothing)  # noqa: E731
    np.testing.assert_allclose(ours(hidden, table), theirs(hidden, table), rtol=1e-6)
    for ours_g, theirs_g in zip(jax.grad(ours, (0, 1))(hidden, table), jax.grad(theirs, (0, 1))(hidden, table)):
        np.testing.assert_allclose(ours_g, theirs_g, atol=3e-6)


def test_sums_besides_the_loss():
    hidden, table, targets, weights = problem()
    sums = vocabulary_loss.vocabulary_loss(hidden, table, targets, weights, smoothing=0.1)
    right = ((hidden @ table.T).argmax(-1) == targets) * weights
    assert float(sums["correct"]) == right.sum()
    assert float(sums["tokens"]) == weights.sum()
    np.testing.assert_allclose(sums["nll"], reference(hidden, table, targets, weights, 0.0), rtol=1e-6)


def test_a_frozen_table_gets_no_gradient_product():
    hidden, table, targets, weights = problem()
    loss = lambda h: vocabulary_loss.vocabulary_loss(h, jnp.asarray(table), targets, weights)["loss"]  # noqa: E731
    shapes = [v.aval.shape for e in _equations(jax.make_jaxpr(jax.grad(loss))(hidden).jaxpr) for v in e.outvars]
    products = [v.aval.shape for e in _equations(jax.make_jaxpr(jax.grad(loss))(hidden).jaxpr)
                if e.primitive.name == "dot_general" for v in e.outvars]  # fmt: skip
    assert shapes and table.shape not in products


def test_never_the_whole_array_of_logits():
    b, t, d, v = 8, 64, 16, 4096
    hidden, table, targets, weights = problem(b, t, d, v)
    loss = lambda h, e: vocabulary_loss.vocabulary_loss(h, e, targets, weights, chunk=64)["loss"]  # noqa: E731
    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(hidden, table).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < b * t * v * 4 / 2


def _equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)
