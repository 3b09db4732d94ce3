"""Attention with approximate gradients: its limit, its norms, what it refuses."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention import approximate, softmax
from lwt.attention.parts import masks


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def test_becomes_softmax_attention_as_the_degree_grows():
    exact = softmax.Attention(width=8, heads=2)
    x, mask = jnp.asarray(normal(0, 2, 9, 8) / 2, jnp.float32), masks.Mask(jnp.array([[1] * 9, [1] * 6 + [0] * 3]))
    variables = exact.init(jax.random.key(0), x)

    def gradient(module):
        return jax.grad(lambda w: (module.apply(w, x, None, mask)[1, :6] ** 2).sum())(variables)

    wanted, last = jax.tree.leaves(gradient(exact)), math.inf
    for degree in (1, 4, 10):
        found = jax.tree.leaves(gradient(approximate.Attention(width=8, heads=2, degree=degree)))
        error = max(float(jnp.abs(a - b).max()) for a, b in zip(found, wanted, strict=True))
        assert error < last
        last = error
    assert last < 1e-4


@pytest.mark.parametrize("more", [{}, {"kv_heads": 2, "norm": "clip", "bound": 0.5}, {"norm": "centre"}])
def test_the_exact_forward_is_softmax_attention_with_the_same_weights(more):
    exact = softmax.Attention(width=16, heads=4, **(more if more.get("norm") != "centre" else {}))
    module = approximate.Attention(width=16, heads=4, block=4, **more)
    x, mask = jnp.asarray(normal(0, 2, 9, 16), jnp.float32), masks.Mask(jnp.array([[1] * 9, [1] * 6 + [0] * 3]))
    variables = exact.init(jax.random.key(0), x)

    def shapes(tree):
        return jax.tree.map(jnp.shape, tree)

    assert shapes(module.init(jax.random.key(0), x)) == shapes(variables)
    np.testing.assert_allclose(module.apply(variables, x, None, mask), exact.apply(variables, x, None, mask), atol=2e-6)


@pytest.mark.parametrize("kind", [softmax, approximate])
def test_norms_keep_every_logit_within_the_bound(kind):
    plain = kind.Attention(width=16, heads=4)
    x = jnp.asarray(normal(0, 2, 9, 16), jnp.float32) * jnp.array([0.01, 5.0]).reshape(2, 1, 1)
    variables = plain.init(jax.random.key(0), x)

    def factors(module):
        def both(module):
            return (module.queries(x), module.project(x)["key"])

        return [np.asarray(side) for side in module.apply(variables, method=both)]

    free, clipped, even = (factors(plain.clone(norm=norm, bound=0.5)) for norm in ("", "clip", "rms"))
    for raw, short, same in zip(free, clipped, even, strict=True):
        np.testing.assert_array_equal(short[0], raw[0])  # what is within the bound is left alone
        assert np.linalg.norm(raw[1], axis=-1).max() > 1
        assert np.linalg.norm(short, axis=-1).max() <= math.sqrt(0.5) * (1 + 1e-6)
        np.testing.assert_allclose(np.linalg.norm(same, axis=-1), math.sqrt(0.5), rtol=1e-5)
        np.testing.assert_allclose(
            same[0] / raw[0] * np.linalg.norm(raw[0], axis=-1, keepdims=True), 0.5**0.5, rtol=1e-3
        )


def test_centring_makes_logits_small_without_changing_softmax():
    module = approximate.Attention(width=16, heads=4, norm="centre")
    q, k = (jnp.asarray(normal(i, 2, 4, 9, 4), jnp.float32) for i in (0, 1))
    real = jnp.array([[True] * 9, [True] * 6 + [False] * 3])
    x = jnp.ones((2, 9, 16))

    def apply(k):
        return module.apply(module.init(jax.random.key(0), x), q, k, real=real, method="logit_factors")

    shifted = apply(k + 100 * jnp.asarray(normal(2, 2, 4, 1, 4), jnp.float32))[1]
    np.testing.assert_allclose(shifted, apply(k)[1], atol=1e-4)
    np.testing.assert_allclose(jnp.where(real[:, None, :, None], shifted, 0).sum(2), 0, atol=1e-3)


@pytest.mark.parametrize("exact_forward", [True, False])
def test_gradients_stay_finite_where_nothing_is_seen_and_far_outside_of_the_regime(exact_forward):
    module = approximate.Attention(width=8, heads=2, degree=1, exact_forward=exact_forward)
    x, mask = jnp.asarray(30 * normal(0, 2, 9, 8), jnp.float32), masks.Mask(jnp.array([[1] * 9, [0] * 9]))
    variables = module.init(jax.random.key(0), x)
    found = jax.grad(lambda w: (module.apply(w, x, None, mask) ** 2).sum())(variables)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"degree": 0}, "degree=0"),
        ({"norm": "rsm"}, "norm='rsm'.*'rms'"),
        ({"bound": 0.0}, "bound=0"),
        ({"degree": 6, "head_width": 64}, "131,115,985 features of heads of width 64"),
    ],
)
def test_what_does_not_fit_is_refused(fields, words):
    with pytest.raises(errors.ConfigError, match=words):
        approximate.Attention(width=16, heads=2, **fields).init(jax.random.key(0), jnp.ones((1, 3, 16)))


def test_centring_looks_ahead():
    module = approximate.Attention(width=16, heads=2, norm="centre", exact_forward=False)
    x = jnp.ones((1, 3, 16))
    with pytest.raises(errors.ConfigError, match="needs exact_forward=True"):
        module.apply(module.init(jax.random.key(0), x), x, None, masks.Mask(causal=True))
