"""Every attention in lwt/attention/ keeps the one signature: found by its file, tested here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import registry
from lwt.attention import masks

NAMES = [name for name in registry.names("lwt.attention") if name != "masks"]


@pytest.fixture(params=NAMES)
def attention(request):
    module = registry.module("lwt.attention", request.param, key="attention").Attention(width=16, heads=4)
    return module, module.init(jax.random.key(0), jnp.ones((1, 3, 16)))


def rows(seed, length):
    return jax.random.normal(jax.random.key(seed), (2, length, 16))


def test_there_are_attentions():
    assert "softmax" in NAMES


def test_output_has_the_shape_of_x(attention):
    module, variables = attention
    assert module.apply(variables, rows(0, 5), rows(1, 7)).shape == (2, 5, 16)


def test_masked_positions_have_no_gradient(attention):
    module, variables = attention
    allowed = jnp.array([[True, True, False, True, False]] * 2)[:, None, None, :]
    gradient = jax.grad(lambda c: module.apply(variables, rows(0, 4), c, allowed)[0].sum())(rows(1, 5))
    touched = np.abs(gradient[0]).sum(-1) > 0
    assert touched.tolist() == [True, True, False, True, False]


def test_causal_by_gradient(attention):
    module, variables = attention
    for position in range(4):
        state = lambda x, p=position: module.apply(variables, x, None, masks.causal(4))[0, p].sum()  # noqa: E731
        touched = np.abs(jax.grad(state)(rows(0, 4))[0]).sum(-1) > 0
        assert touched.tolist() == [p <= position for p in range(4)]


def test_a_step_at_a_time_equals_the_whole(attention):
    module, variables = attention
    x = rows(0, 6)
    whole = module.apply(variables, x, None, masks.causal(6))
    cache = module.empty_cache(2, 6)
    for i in range(6):
        mask = (jnp.arange(6) <= i)[None, None, None]
        y, cache = module.apply(variables, x[:, i : i + 1], None, mask, cache=cache, index=i)
        np.testing.assert_allclose(y[:, 0], whole[:, i], atol=1e-6)


def test_a_projected_context_equals_the_context(attention):
    module, variables = attention
    x, context = rows(0, 3), rows(1, 5)
    cache = module.apply(variables, context, method="project")
    np.testing.assert_allclose(module.apply(variables, x, cache=cache), module.apply(variables, x, context), atol=1e-6)


def test_dropout_acts_in_training_only(attention):
    module, variables = attention
    module = module.clone(dropout=0.5)
    train = lambda seed: module.apply(variables, rows(0, 4), train=True, rngs={"dropout": jax.random.key(seed)})  # noqa: E731
    assert not np.allclose(train(0), train(1))
    np.testing.assert_array_equal(train(0), train(0))
    np.testing.assert_array_equal(module.apply(variables, rows(0, 4)), module.apply(variables, rows(0, 4)))
