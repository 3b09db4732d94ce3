"""Attention between the projections: its own backward pass against automatic differentiation of the formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention.parts import core
from lwt.layers import dropout, products

RATE = 0.25


def problem(*, heads=2, t=5, s=7, k=4):
    q, keys, values = (jax.random.normal(jax.random.key(i), (3, heads, n, k)) for i, n in enumerate((t, s, s)))
    mask = jax.random.bernoulli(jax.random.key(3), 0.7, (3, 1, 1, s)).at[..., 0].set(True)
    return q, keys, values, mask


def plain(q, keys, *, v, mask, key=None):
    """The formula, for JAX to differentiate."""
    weights = jax.nn.softmax(jnp.where(mask, jnp.einsum("bhtk,bhsk->bhts", q, keys), -jnp.inf))
    if key is not None:
        keep = dropout.keep_mask(key, RATE, shape=weights.shape)
        weights = jnp.where(keep, weights / (dropout.kept_of_256(RATE) / 256), 0)
    return jnp.einsum("bhts,bhsk->bhtk", weights, v)


@pytest.mark.parametrize("k", [3, 4])  # beside 7 keys: both ways to a product over rows
@pytest.mark.parametrize("seed", [None, 5])
def test_value_and_gradients_are_those_of_the_formula(seed, k):
    *arrays, mask = problem(k=k)
    key = None if seed is None else jax.random.key(seed)

    def ours(q, k, v):
        return core.attend(q, k, v=v, mask=mask, key=key, rate=RATE)

    def theirs(q, k, v):
        return plain(q, k, v=v, mask=mask, key=key)

    np.testing.assert_allclose(ours(*arrays), theirs(*arrays), atol=1e-6)

    def weigh(f):
        return lambda *a: (f(*a) * jnp.cos(jnp.arange(f(*a).size).reshape(f(*a).shape))).sum()

    for found, expected in zip(*(jax.grad(weigh(f), (0, 1, 2))(*arrays) for f in (ours, theirs))):
        np.testing.assert_allclose(found, expected, rtol=5e-6, atol=2e-6)


def test_keys_that_are_values_get_both_gradients():
    q, keys, _, mask = problem()

    def squares(x, f):
        return (f(q, x, v=x, mask=mask) ** 2).sum()

    found, expected = (jax.grad(squares)(keys, f) for f in (core.attend, plain))
    np.testing.assert_allclose(found, expected, rtol=5e-6, atol=2e-6)


def test_bfloat16_operands_are_near_float32_in_both_passes():
    *arrays, mask = problem(t=32, s=32, k=16)
    arrays[0] /= 4

    def squares(q, k, v, dtype):
        return (core.attend(q, k, v=v, mask=mask, dtype=dtype) ** 2).sum()

    gradients = jax.jit(jax.grad(squares, (0, 1, 2)), static_argnums=3)
    for found, expected in zip(*(gradients(*arrays, dtype) for dtype in ("bfloat16", "float32"))):
        error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        assert 0 < error < 1.5e-2  # a few roundings of 2^-9 each


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_array_of_weights_is_kept_for_the_backward_pass(dtype):
    *arrays, mask = problem(t=11, s=13)
    _, saved = jax.vjp(lambda q, k, v: core.attend(q, k, v=v, mask=mask, dtype=dtype), *arrays)
    kept = [leaf.dtype for leaf in jax.tree.leaves(saved) if leaf.shape == (3, 2, 11, 13)]
    assert kept == [products.held_in(dtype)]
