"""Attention by polynomials against whole arrays: features, gradients, errors and memory."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
