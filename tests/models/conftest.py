"""What the tests of models share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture(scope="session")
def weights_of():
    """``weights_of(model, seed=0)``: random weights of its shapes, biases and scales too; no initialiser to compile."""

    def make(model, *, seed=0):
        generator = np.random.default_rng(seed)
        shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))
        return jax.tree.map(lambda leaf: jnp.asarray(generator.normal(0, 0.5, leaf.shape), leaf.dtype), shapes)

    return make


@pytest.fixture(scope="session")
def run():
    """``run(model, variables, *args, method=None)``: `model.apply`, compiled."""

    @functools.cache
    def compiled(model, method):
        return jax.jit(lambda variables, *args: model.apply(variables, *args, method=method))

    return lambda model, variables, *args, method=None: compiled(model, method)(variables, *args)
