"""Quantized weights: their error bound, and products and rows against the dense weight in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import linear, quantized_weight

SHAPES = {"kernel": (70, 9), "conv": (32, 1, 12), "vector": (130,), "table": (300, 16)}
OPTIONS = [
    {},
    {"block": 32, "scale_dtype": jnp.float32},
    {"block": 0},
    {"block": 0, "axis": -1},
    {"block": 5, "axis": -1},
    {"format": "int4", "block": 16},
    {"format": "fp8"},
    {"outliers": 0.05},
    {"outliers": 0.3, "threshold": 2.0, "format": "fp8"},
]


def weight(name):
    """Heavy tails, one block of zeros, one of values whose scale is subnormal in float16."""
    w = np.random.default_rng(1).standard_t(3, SHAPES[name]).astype(np.float32)
    w[:64] = 0 if name == "vector" else w[:64]
    w[..., 0] *= 1e-4
    return jnp.asarray(w)


def by_hand(node):
    """The dense weight in float64, entry by entry."""
    values, scales = np.asarray(node.values, np.float64), np.asarray(node.scales, np.float64)
    axis = node.axis % values.ndim
    w = values * np.take(scales, np.arange(values.shape[axis]) // node.block, axis=axis)
    if node.outliers is not None:
        used = np.asarray(node.positions) < w.size
        w.reshape(-1)[np.asarray(node.positions)[used]] = np.asarray(node.outliers, np.float64)[used]
    return w


CASES = [("kernel", options) for options in OPTIONS] + [(name, {}) for name in list(SHAPES)[1:]]


@pytest.mark.parametrize(("name", "options"), [*CASES, ("vector", {"outliers": 0.1})], ids=str)
def test_round_trip(name, options):
    w = weight(name)
    node = jax.jit(lambda w: quantized_weight.quantize(w, **options))(w)
    assert node.shape == w.shape and jax.tree.leaves(node)[0].shape == w.shape  # what linen checks
    assert node.values.dtype == quantized_weight.FORMATS[options.get("format", "int8")][0]
    dense = by_hand(node)
    np.testing.assert_allclose(node.dense(), dense, rtol=1e-6)
    axis = node.axis % w.ndim
    scale = np.take(np.asarray(node.scales, np.float64), np.arange(w.shape[axis]) // node.block, axis=axis)
    scale = np.broadcast_to(scale, w.shape).copy()
    error = np.abs(dense - np.asarray(w, np.float64))
    if node.outliers is not None:  # their places are exact to float16
        used = np.asarray(node.positions)[np.asarray(node.positions) < w.size]
        size = np.abs(np.asarray(w)).reshape(-1)
        assert size[used].min() >= np.delete(size, used).max() or size[used].min() > options["threshold"]
        assert np.all(error.reshape(-1)[used] <= size[used] * 2.0**-11)
        error.reshape(-1)[used] = 0
        assert np.all(np.asarray(node.values, np.float32).reshape(-1)[used] == 0)
    half = np.maximum(np.abs(w) * 2.0**-4, scale * 2.0**-10) if options.get("format") == "fp8" else scale / 2
    assert np.all(error <= half * (1 + 1e-5))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_products_and_gradients_are_those_of_the_dense_weight(options):
    for dtype in ("float32", "bfloat16"):
        node = quantized_weight.quantize(weight("kernel"), **options)
        x = jnp.asarray(np.random.default_rng(2).normal(size=(3, 5, node.shape[0])), jnp.float32)
        f = functools.partial(linear.linear, dtype=dtype)
        exact = np.asarray(x, np.float64) @ by_hand(node)
        tolerance = 1e-5 if dtype == "float32" else 2e-2
        np.testing.assert_allclose(f(x, node), exact, atol=tolerance * np.abs(exact).max())
        dx = jax.grad(lambda x: (f(x, node) * exact).sum())(x)  # noqa: B023
        wanted = exact @ by_hand(node).T
        np.testing.assert_allclose(dx, wanted, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows(options):
    node = quantized_weight.quantize(weight("table"), **options)
    ids = jnp.array([[0, 299, 63], [64, 65, 400]])  # the last is clipped, as for an array
    np.testing.assert_array_equal(linear.take(node, ids), linear.take(node.dense(), ids))


def test_integers_are_multiplied_as_they_are():
    """With bfloat16 operands the integers stay exact: the error is that of x alone, below that of a rounded weight."""
    node = quantized_weight.quantize(weight("kernel"))
    x = jnp.asarray(np.random.default_rng(2).normal(size=(64, 70)), jnp.bfloat16).astype(jnp.float32)
    exact = np.asarray(x, np.float64) @ by_hand(node)
    np.testing.assert_allclose(linear.linear(x, node, dtype="bfloat16"), exact, atol=1e-5 * np.abs(exact).max())


def test_threshold_bounds_what_falls_back():
    w = np.full((64, 4), 0.5, np.float32)
    w[3, 1], w[9, 2] = 7.0, -20.0
    node = quantized_weight.quantize(jnp.asarray(w), outliers=0.08, threshold=6.0)
    used = np.asarray(node.positions) < w.size
    np.testing.assert_array_equal(np.asarray(node.positions)[used], [3 * 4 + 1, 9 * 4 + 2])
    np.testing.assert_allclose(node.dense(), w, atol=0.5 / 127)  # without the fallback: 20 / 127 / 2 in a column
    assert np.abs(quantized_weight.quantize(jnp.asarray(w)).dense() - w).max() > 0.5 / 127


def test_straight_through():
    w = weight("kernel")
    value, pull = jax.vjp(lambda w: quantized_weight.straight_through(w, format="int4"), w)
    np.testing.assert_array_equal(value, quantized_weight.quantize(w, format="int4").dense())
    np.testing.assert_array_equal(pull(w)[0], w)
    assert np.abs(value - w).max() > 0.1


@pytest.mark.parametrize("limit", [None, 1.5])
@pytest.mark.parametrize("format", ["int8", "int4"])
def test_integers_times_integers(format, limit):
    """Sums are those of numpy's int64, and the scaled ones those of the dequantized factors."""
    generator = np.random.default_rng(2)
    w = generator.normal(size=(1000, 9)).astype(np.float32)
    x = generator.normal(size=(33, 1000)).astype(np.float32)
    x[4], x[5, 0] = 0, 9.0
    node = quantized_weight.quantize(jnp.asarray(w), format=format, block=0)
    node = node.replace(integer_inputs=True, limit=None if limit is None else jnp.float32(limit))
    units, step = (np.asarray(part) for part in quantized_weight.to_integers(jnp.asarray(x), node.limit))
    tops = np.abs(x).max(1, keepdims=True) if limit is None else np.full((1, 1), limit, np.float32)
    np.testing.assert_array_equal(units, np.rint(np.clip(x / np.where(tops > 0, tops, 127) * 127, -127, 127)))
    assert units.dtype == np.int8 and not units[4].any() and np.abs(units).max() == 127
    sums = units.astype(np.int64) @ np.asarray(node.values, np.int64)
    scales = step.astype(np.float64) * np.asarray(node.scales, np.float64)
    found = jax.jit(functools.partial(linear.linear, dtype="bfloat16"))(jnp.asarray(x), node)
    np.testing.assert_allclose(found, sums * scales, rtol=3e-7)
    np.testing.assert_allclose(found, (units * step) @ np.asarray(node.dense()), atol=2e-4)
    dy = generator.normal(size=found.shape).astype(np.float32)
    dx = jax.grad(lambda x: (linear.linear(x, node) * dy).sum())(jnp.asarray(x))
    np.testing.assert_allclose(dx, dy @ by_hand(node).T, atol=1e-4)


def test_inputs_rounded_in_training():
    """The value is that of the integers; gradients of both factors pass straight through."""
    generator = np.random.default_rng(2)
    x, w = (jnp.asarray(generator.normal(size=shape), jnp.float32) for shape in ((5, 40), (40, 9)))
    node = quantized_weight.quantize(w, block=0).replace(integer_inputs=True)

    def trained(x, w):
        return linear.linear(x, quantized_weight.RoundedInputs(quantized_weight.straight_through(w, block=0)))

    np.testing.assert_allclose(trained(x, w), linear.linear(x, node), atol=1e-5)
    assert np.abs(trained(x, w) - x @ node.dense()).max() > 1e-3
    dx, dw = jax.grad(lambda x, w: trained(x, w).sum(), argnums=(0, 1))(x, w)
    units, step = quantized_weight.to_integers(x)
    np.testing.assert_allclose(dx, np.ones((5, 9)) @ by_hand(node).T, rtol=1e-5)
    np.testing.assert_allclose(dw, np.asarray(units * step).T @ np.ones((5, 9)), rtol=1e-4, atol=1e-5)
