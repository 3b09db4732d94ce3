"""Attention with approximate gradients: its features, its errors, its memory."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention import approximate, softmax
from lwt.attention.parts import masks, polynomial
from studies.approximate_gradients import gradients_report

TABLE = gradients_report.REFERENCE


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def by_hand(q, k, v, d_output, weights):
    """The output and the gradients, given unnormalised weights `[b h t s]`."""
    p = weights / weights.sum(-1, keepdims=True)
    output = p @ v
    d_scores = p * (d_output @ v.swapaxes(-1, -2) - (d_output * output).sum(-1, keepdims=True))
    return output, d_scores @ k, d_scores.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d_output


def gradients(q, k, v, d_output, **more):
    """The same from `polynomial.attention`, in float64."""
    f = jax.jit(lambda q, k, v: polynomial.attention(q, k, v=v, dtype="float64", exact_forward=False, **more))
    output, backward = jax.vjp(f, *map(jnp.asarray, (q, k, v)))
    return tuple(map(np.asarray, (output, *backward(jnp.asarray(d_output)))))


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_features_multiply_to_the_truncated_exponential(degree):
    with jax.enable_x64(True):
        q, k = jnp.asarray(normal(0, 3, 7)), jnp.asarray(normal(1, 3, 7))
        phi = polynomial.features(q, degree)
        assert len(phi) == polynomial.count(3, degree) == math.comb(3 + degree, degree)
        x = np.asarray(q.T @ k)
        expected = sum(x**i / math.factorial(i) for i in range(degree + 1))
        np.testing.assert_allclose(phi.T @ polynomial.features(k, degree), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(polynomial.truncated_exp(x, degree), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [4, 64])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_the_formulas_with_whole_arrays(causal, block):
    t, s = 11, 11 if causal else 14
    q, k, v, d_output = normal(0, 2, 3, t, 4), normal(1, 2, 3, s, 4), normal(2, 2, 3, s, 5), normal(3, 2, 3, t, 5)
    segments = np.array([[1] * s, [1] * 9 + [0] * (s - 9)])
    mask = masks.Mask(jnp.asarray(segments), causal=causal)
    x = q @ k.swapaxes(-1, -2)
    expected = by_hand(q, k, v, d_output, (1 + x + x**2 / 2) * np.asarray(mask.array(t, s)))
    with jax.enable_x64(True):
        found = gradients(q, k, v, d_output, mask=mask, degree=2, block=block)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.fixture(scope="module")
def measured():
    """``{largest logit: relative error of dQ for degree 1 to 5}``, the median of five draws.

    Queries, keys, values and the output's gradient are standard normal; queries and keys are then multiplied by what
    makes the largest logit the wanted one. (Without that, by 0.25, 0.5 and 1, the logits reach 0.36, 1.44 and 5.8.)
    """
    largest = np.repeat(list(TABLE), 5).reshape(15, 1, 1, 1)
    q, k, v, d_output = (np.stack([normal((seed, i), 1, 256, 8) for seed in range(5)] * 3) for i in range(4))
    root = np.sqrt(largest / np.abs(q @ k.swapaxes(-1, -2)).max((1, 2, 3), keepdims=True))
    q, k = root * q, root * k
    exact = by_hand(q, k, v, d_output, np.exp(q @ k.swapaxes(-1, -2)))[1]

    def norm(x):
        return np.sqrt(np.square(x).sum((1, 2, 3)))

    with jax.enable_x64(True):
        of_degree = [gradients(q, k, v, d_output, degree=degree)[1] for degree in range(1, 6)]
    relative = np.stack([norm(d_q - exact) / norm(exact) for d_q in of_degree])  # [degrees 15]
    return dict(zip(TABLE, np.median(relative.reshape(5, 3, 5), axis=2).T.tolist()))


@pytest.mark.parametrize("largest", TABLE)
def test_the_errors_of_another_computation(measured, largest):
    for ours, theirs in zip(measured[largest], TABLE[largest], strict=True):
        assert theirs / 1.5 < ours < theirs * 1.5


def test_a_degree_more_helps_below_the_threshold_only(measured):
    gains = {largest: [a / b for a, b in zip(found, found[1:])] for largest, found in measured.items()}
    assert min(gains[0.38]) > 10 and max(gains[5.68]) < 2
    assert all(3 < gain < 10 for gain in gains[1.54])


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


def all_shapes(jaxpr):
    """The shapes of all that is computed in a jaxpr, loops and all."""
    for equation in jaxpr.eqns:
        yield from (variable.aval.shape for variable in equation.outvars)
        for part in jax.tree.leaves(list(equation.params.values())):
            if hasattr(part, "eqns") or hasattr(part, "jaxpr"):
                yield from all_shapes(getattr(part, "jaxpr", part))


@pytest.mark.parametrize("exact_forward", [False, True])
def test_no_array_of_queries_by_keys(exact_forward):
    def loss(q, k, v):
        return polynomial.attention(q, k, v=v, degree=2, exact_forward=exact_forward, block=64).sum()

    def made(t, s):
        arrays = [jax.ShapeDtypeStruct((2, 2, n, 4), jnp.float32) for n in (t, s, s)]
        return jax.jit(jax.grad(loss, (0, 1, 2))).trace(*arrays)

    assert not [shape for shape in all_shapes(made(192, 320).jaxpr.jaxpr) if {192, 320} <= {*shape}]
    temporaries = [made(n, n).lower().compile().memory_analysis().temp_size_in_bytes for n in (1024, 4096)]
    assert temporaries[1] < 4.2 * temporaries[0]


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
