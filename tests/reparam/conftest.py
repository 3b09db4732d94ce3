"""A small base of random weights with the names of a transformer, and a function that uses them all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import linear

SHAPES = {
    "embed/embedding": (11, 12),
    "encoder/layer_0/self_attention/query/kernel": (12, 12),
    "encoder/layer_0/self_attention/query/bias": (12,),
    "encoder/layer_0/cross_attention/key/kernel": (12, 20),
    "encoder/layer_0/cross_attention/value/kernel": (20, 12),
    "encoder/layer_0/mlp/fc1/kernel": (12, 8),
    "encoder/layer_0/mlp/fc2/kernel": (8, 7),
    "encoder/layer_1/self_attention/query/kernel": (12, 12),
}


@pytest.fixture
def base():
    generator = np.random.default_rng(0)
    return {name: jnp.asarray(generator.normal(0, 0.3, shape), jnp.float32) for name, shape in SHAPES.items()}


@jax.jit
def _apply(weights, ids):
    x = linear.take(weights["embed/embedding"], ids)
    layer = "encoder/layer_0/"
    x = linear.linear(x, weights[layer + "self_attention/query/kernel"])
    x = jnp.tanh(x + weights[layer + "self_attention/query/bias"][None])
    x = jnp.tanh(linear.linear(x, weights[layer + "cross_attention/key/kernel"]))
    x = jnp.tanh(linear.linear(x, weights[layer + "cross_attention/value/kernel"]))
    x = jnp.tanh(linear.linear(x, weights["encoder/layer_1/self_attention/query/kernel"]))
    x = jnp.tanh(linear.linear(x, weights[layer + "mlp/fc1/kernel"]))
    return linear.linear(x, weights[layer + "mlp/fc2/kernel"])


@pytest.fixture
def apply():
    """``(weights, ids [n]) -> logits [n 7]``, compiled once for each structure of the weights."""
    return _apply


@pytest.fixture
def moved():
    """``adapter -> adapter`` with every leaf moved away from its start."""

    def moved(adapter, seed=3):
        generator = np.random.default_rng(seed)
        noise = {name: generator.normal(0, 0.1, leaf.shape) for name, leaf in adapter.items()}
        return {name: jnp.asarray(np.asarray(leaf) + noise[name], leaf.dtype) for name, leaf in adapter.items()}

    return moved
