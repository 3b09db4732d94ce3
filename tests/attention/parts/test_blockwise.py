"""Softmax attention in blocks of queries equals attention in one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention.parts import blockwise, core, masks


@pytest.mark.parametrize("apart", [False, True])
def test_value_and_gradients_equal_those_of_one_block(apart):
    q, k, v, d_y = jax.random.normal(jax.random.key(0), (4, 2, 3, 7, 4))  # blocks of 3 queries: the last is padded
    mask = masks.Mask(jnp.array([[1] * 7, [1] * 5 + [0] * 2]), causal=True)

    def whole(q, k, v):
        return core.attend(q, k, v=v, mask=mask.array(7, 7))

    def in_blocks(q, k, v):
        return blockwise.attention(q, k, v=v, mask=mask, block=3, apart=apart)

    (y, back), (found, found_back) = (jax.vjp(f, q, k, v) for f in (whole, in_blocks))
    for ours, wanted in zip((found, *found_back(d_y)), (y, *back(d_y)), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def test_dropout_in_parts():
    """The backward pass drops what the forward pass dropped, and heads do not drop the same."""
    q, k, v, d_y = jax.random.normal(jax.random.key(0), (4, 2, 1, 12, 3))
    q, k, v, d_y = (jnp.repeat(x, 2, axis=1) for x in (q, k, v, d_y))

    def run(v):
        return blockwise.attention(q, k, v=v, block=5, apart=True, key=jax.random.key(1), rate=0.5)

    y, back = jax.vjp(run, v)
    np.testing.assert_allclose((y * d_y).sum(), (back(d_y)[0] * v).sum(), rtol=1e-5)  # it is linear in the values
    assert jnp.abs(y[:, 0] - y[:, 1]).max() > 0.1
