"""Operands are rounded as XLA rounds them; the gradient of a weight is a product over rows, whatever the layout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import linear, products


@pytest.mark.parametrize("shape", [(2, 5), (3, 5, 2, 4)], ids=["matrices", "stacks"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("widths", [(9, 4), (8, 4), (4, 9)])
def test_product_over_rows(widths, dtype, shape):
    x, y = (jnp.arange(np.prod((*shape, n)), dtype=dtype).reshape(*shape, n) % 7 for n in widths)
    found = jax.jit(products.product_over_rows)(x, y)
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, np.einsum("...ni,...no->...io", *(np.float32(a) for a in (x, y))))


def test_a_transposed_weight_in_bfloat16():
    """XLA's CPU backend once had no code for its gradient."""
    x, table = jnp.arange(64.0).reshape(8, 8) % 7, jnp.arange(40.0).reshape(5, 8) % 3

    def loss(table, dtype):
        return (linear.linear(x, table.T, dtype=dtype) ** 2).sum()

    found, wanted = (jax.jit(jax.grad(loss), static_argnums=1)(table, dtype) for dtype in ("bfloat16", "float32"))
    np.testing.assert_allclose(found, wanted, rtol=2**-7)


def test_rounding_equals_a_conversion():
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
    ties = np.arange(2**16, dtype=np.uint32) << 16 | 0x8000
    x = jnp.asarray(np.concatenate([bits, ties, ties - 1, ties + 1]).view(np.float32))
    found = jax.jit(products.rounded, static_argnums=1)(x, "bfloat16")
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(x.astype(jnp.bfloat16), np.float32))
    np.testing.assert_array_equal(products.rounded(x, "float32"), x)
