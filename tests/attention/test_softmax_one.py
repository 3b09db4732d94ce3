"""Attention to nothing: the formula, its gradient, and the weights of softmax attention."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention import softmax, softmax_one
from lwt.attention.parts import masks


def formula(q, k, v, allowed):
    """``exp(l_i) / (1 + Σ exp(l_j))``, as it is written."""
    weights = jnp.where(allowed, jnp.exp(jnp.einsum("bhtk,bhsk->bhts", q, k)), 0)
    return jnp.einsum("bhts,bhsk->bhtk", weights / (1 + weights.sum(-1, keepdims=True)), v)


@pytest.mark.parametrize("block", [0, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_value_and_gradients_are_those_of_the_formula(block, causal):
    module = softmax_one.Attention(width=16, heads=4, block=block)
    arrays = [jax.random.normal(jax.random.key(i), (2, 4, 5, 4)) for i in range(3)]
    segments = jnp.array([[1, 1, 1, 2, 2], [1, 1, 0, 0, 0]])
    mask = masks.Mask(segments, segments, causal=causal)

    def ours(q, k, v):
        return module.mix(q, {"key": k, "value": v}, mask=mask, dtype="float32")

    def expected(q, k, v):
        return formula(q, k, v, mask.array(5, 5))

    np.testing.assert_allclose(ours(*arrays), expected(*arrays), atol=1e-6)
    for found, right in zip(
        *(jax.grad(lambda *a, f=f: (f(*a) ** 2).sum(), (0, 1, 2))(*arrays) for f in (ours, expected))
    ):
        np.testing.assert_allclose(found, right, atol=2e-5)


def test_a_query_whose_logits_are_low_attends_to_nothing():
    module = softmax_one.Attention(width=4, heads=1)
    q, keys, values = jnp.full((1, 1, 1, 4), -5.0), jnp.ones((1, 1, 3, 4)), jnp.ones((1, 1, 3, 4))
    found = module.mix(q, {"key": keys, "value": values}, mask=None, dtype="float32")
    assert 0 < found.max() == pytest.approx(3 * np.exp(-20) / (1 + 3 * np.exp(-20)), rel=1e-4)
    whole = softmax.Attention(width=4, heads=1).mix(q, {"key": keys, "value": values}, mask=None, dtype="float32")
    assert whole.min() == pytest.approx(1)


def test_its_weights_are_those_of_softmax_attention():
    x = jnp.ones((1, 3, 16))
    one, other = (a.Attention(width=16, heads=4).init(jax.random.key(0), x) for a in (softmax_one, softmax))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), one, other))
