"""R-Drop's loss against the formula over whole arrays of logits."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt.layers.losses import paired_loss, vocabulary_loss


def problem(b=4, t=7, d=16, v=40):
    generator = np.random.default_rng(0)
    hidden, table, bias = (jnp.asarray(generator.normal(size=s), jnp.float32) for s in ((2 * b, t, d), (v, d), (v,)))
    return hidden, table, bias, generator.integers(0, v, (b, t)), (generator.random((b, t)) > 0.3) * 1.0


def whole(hidden, table, bias, targets, weights, *, weight, smoothing):
    """Equation 4 of the paper, halved: the mean cross-entropy, and α/2 times the mean of the two divergences."""
    log_p = jax.nn.log_softmax(hidden @ table.T + bias)
    one, two = log_p[0::2], log_p[1::2]
    labels = optax.smooth_labels(jax.nn.one_hot(targets, len(bias)), smoothing)
    nats = -((one + two) / 2 * labels).sum(-1)
    there, back = ((jnp.exp(p) * (p - q)).sum(-1) for p, q in ((one, two), (two, one)))
    return (weights * (nats + weight / 2 * (there + back) / 2)).sum(), (weights * (there + back) / 2).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 6, 11, 512])
def test_value_and_gradients_equal_the_formula(smoothing, chunk):
    *arrays, targets, weights = problem()

    def ours(*arrays):
        hidden, table, bias = arrays
        options = dict(weight=3.0, smoothing=smoothing, chunk=chunk, bias=bias)
        sums = paired_loss.paired_loss(hidden, table, targets=targets, weights=weights, **options)
        return sums["loss"], sums["divergence"]

    def theirs(*arrays):
        return whole(*arrays, targets, weights, weight=3.0, smoothing=smoothing)

    (mine, right), (gradients, wanted) = zip(
        *(jax.jit(jax.value_and_grad(f, (0, 1, 2), has_aux=True))(*arrays) for f in (ours, theirs)), strict=True
    )
    np.testing.assert_allclose(mine, right, rtol=1e-5)
    for mine, right in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-5)


def test_two_equal_passes_are_one():
    hidden, table, bias, targets, weights = problem()
    hidden, options = hidden[::2], dict(targets=targets, weights=weights, bias=bias, smoothing=0.1)
    twice = paired_loss.paired_loss(jnp.repeat(hidden, 2, 0), table, weight=5.0, **options)
    once = vocabulary_loss.vocabulary_loss(hidden, table, **options)
    assert abs(float(twice.pop("divergence"))) < 1e-5
    assert twice == pytest.approx({name: float(value) for name, value in once.items()}, rel=1e-6)


def test_never_the_whole_array_of_logits():
    b, t, v = 16, 64, 4096
    hidden, table, _, targets, weights = problem(b, t, 16, v)

    def loss(hidden, table):
        options = dict(targets=targets, weights=weights, weight=1.0, chunk=64)
        return paired_loss.paired_loss(hidden, table, **options)["loss"]

    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(hidden, table).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 2 * b * t * v * 4 / 2
