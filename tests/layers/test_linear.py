"""Where an activation meets a weight: arrays and nodes, in half precision and frozen."""

import flax.errors
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import linear


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


NODES = {
    "low rank": linear.LowRank(normal(3, 8, 4), normal(4, 8, 2), normal(5, 2, 4), jnp.float32(0.5)),
    "factors": linear.Factors(normal(6, 8, 3), normal(7, 3, 4)),
    "scaled columns": linear.ColumnScaled(
        linear.LowRank(normal(3, 8, 4), normal(4, 8, 2), normal(5, 2, 4), jnp.float32(2)), normal(8, 4)
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_multiplies_as_the_array_that_it_stands_for(name):
    node, x, ids = NODES[name], normal(9, 2, 5, 8), jnp.array([[3, 0], [7, 7]])
    array = linear.dense(node)
    assert array.shape == node.shape == (8, 4) and linear.is_node(node) and not linear.is_node(array)
    np.testing.assert_allclose(linear.linear(x, node), np.array(x) @ np.array(array), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(linear.take(node, ids), np.array(array)[ids], rtol=1e-4, atol=1e-5)


def test_what_is_merged():
    kept = linear.LowRank(NODES["factors"], normal(4, 8, 2), normal(5, 2, 4), jnp.float32(1))
    weights = {"w": normal(3, 8, 4), **NODES, "adapter on factors": kept}
    assert not any(linear.is_node(w) for w in linear.merge(weights).values())
    nodes = {name for name, w in linear.merge_floats(weights).items() if linear.is_node(w)}
    assert nodes == {"factors", "adapter on factors"}  # compact: they hold less than an array


def test_a_frozen_weight_costs_no_gradient_of_its_shape():
    x, base, a, b = normal(0, 6, 8), normal(1, 8, 4), normal(2, 8, 2), normal(3, 2, 4)

    def loss(a, b):
        return linear.linear(x, linear.LowRank(base, a, b, jnp.float32(1))).sum()

    shapes = [v.aval.shape for e in jax.make_jaxpr(jax.grad(loss, (0, 1)))(a, b).eqns for v in e.outvars]
    assert (8, 4) not in shapes and (8, 2) in shapes
    dense = jax.grad(lambda a, b: (x @ (base + a @ b)).sum(), (0, 1))(a, b)
    for found, wanted in zip(jax.grad(loss, (0, 1))(a, b), dense, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_module_takes_a_node_of_its_kernels_shape():
    layer, x = linear.Linear(4), normal(0, 2, 8)
    params = {"kernel": NODES["factors"], "bias": jnp.ones(4)}
    np.testing.assert_allclose(
        layer.apply({"params": params}, x), x @ linear.dense(NODES["factors"]) + 1, rtol=1e-4, atol=1e-5
    )
    with pytest.raises(flax.errors.ScopeParamShapeError):
        linear.Linear(5).apply({"params": params}, x)


def test_bfloat16_products_round_operands_only():
    x, w = (jax.random.normal(jax.random.key(i), shape) for i, shape in ((0, (8, 64)), (1, (64, 4))))

    def rounded(a):
        return np.array(a.astype(jnp.bfloat16)).astype(np.float64)

    np.testing.assert_allclose(linear.linear(x, w, dtype="bfloat16"), rounded(x) @ rounded(w), rtol=1e-5, atol=1e-5)
    dx, dw = jax.grad(lambda x, w: linear.linear(x, w, dtype="bfloat16").sum(), (0, 1))(x, w)
    np.testing.assert_allclose(dx, np.ones((8, 4)) @ rounded(w).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dw, rounded(x).T @ np.ones((8, 4)), rtol=1e-5, atol=1e-5)


def test_a_bias_and_its_gradient():
    x, w = (jax.random.normal(jax.random.key(i), shape) for i, shape in ((0, (2, 3, 8)), (1, (8, 4))))
    bias, weigh = jnp.arange(4.0), jax.random.normal(jax.random.key(2), (2, 3, 4))
    y, backward = jax.vjp(lambda x, w, bias: linear.linear(x, w, bias=bias), x, w, bias)
    np.testing.assert_allclose(y, np.array(x) @ np.array(w) + np.arange(4), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(backward(weigh)[2], weigh.sum((0, 1)), rtol=1e-5, atol=1e-5)
