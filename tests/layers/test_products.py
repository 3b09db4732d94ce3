"""Operands are rounded as XLA rounds them; the gradient of a weight is a product over rows, whatever the layout."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import blocks, linear, products
from lwt.machine import hardware


@pytest.fixture(params=[False, True], ids=["units", "no_units"])
def slow(request, monkeypatch):
    """Whether the processor has no units for bfloat16."""
    monkeypatch.setattr(hardware, "slow_in_bfloat16", lambda: request.param)
    jax.clear_caches()  # of functions that were traced for another processor
    yield request.param
    jax.clear_caches()


@pytest.mark.parametrize("shape", [(2, 5), (3, 5, 2, 4)], ids=["matrices", "stacks"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("widths", [(9, 4), (8, 4), (4, 9)])
@pytest.mark.parametrize("barriers", [True, False])
def test_product_over_rows(widths, dtype, shape, barriers, monkeypatch):
    monkeypatch.setattr(blocks, "BARRIERS_HOLD", barriers)
    x, y = (jnp.arange(np.prod((*shape, n)), dtype=dtype).reshape(*shape, n) % 7 for n in widths)
    found = jax.jit(products.product_over_rows)(x, y)
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, np.einsum("...ni,...no->...io", *(np.float32(a) for a in (x, y))))


def test_a_transposed_weight_in_bfloat16(slow):
    """XLA's CPU backend once had no code for its gradient."""
    x, table = jnp.arange(64.0).reshape(8, 8) % 7, jnp.arange(40.0).reshape(5, 8) % 3

    def loss(table, dtype):
        return (linear.linear(x, table.T, dtype=dtype) ** 2).sum()

    found, wanted = (jax.jit(jax.grad(loss), static_argnums=1)(table, dtype) for dtype in ("bfloat16", "float32"))
    np.testing.assert_allclose(found, wanted, rtol=2**-7)


def numbers():
    """Floats of all kinds, ties of the rounding among them, as an array."""
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
    ties = np.arange(2**16, dtype=np.uint32) << 16 | 0x8000
    return jnp.asarray(np.concatenate([bits, ties, ties - 1, ties + 1]).view(np.float32))


@pytest.mark.parametrize("once", [False, True])
def test_rounding_equals_a_conversion(slow, once):
    x = numbers()
    found = jax.jit(functools.partial(products.rounded, once=once), static_argnums=1)(x, "bfloat16")
    assert found.dtype == products.held_in("bfloat16") == ("float32" if slow else "bfloat16")
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(x.astype(jnp.bfloat16), np.float32))
    np.testing.assert_array_equal(products.rounded(x, "float32"), x)
    assert products.held_in("float32") == "float32"


def test_integers_are_rounded_too(slow):
    found = products.rounded(jnp.arange(-300, 300), "bfloat16")
    assert found.dtype == products.held_in("bfloat16")
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.arange(-300.0, 300).astype(jnp.bfloat16))


def test_an_operand_has_the_gradient_of_x(slow):
    x = jnp.linspace(-2, 2, 100)
    found = products.operand(x, "bfloat16")
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(x.astype(jnp.bfloat16), np.float32))
    slope = jax.grad(lambda x: (3 * products.operand(x, "bfloat16").astype(jnp.float32)).sum())(x)
    np.testing.assert_array_equal(slope, jnp.full(100, 3.0))


def test_a_product_is_the_same_with_and_without_units(monkeypatch):
    """Sums over 8 exact products of equal operands: no order of the sum changes them."""
    x, w, dy = (jnp.asarray(np.random.default_rng(1).integers(-999, 999, (8, 8)) / 64, jnp.float32) for _ in range(3))
    found = []
    for slow in (True, False):
        monkeypatch.setattr(hardware, "slow_in_bfloat16", lambda slow=slow: slow)
        y, pull = jax.vjp(lambda x, w: linear.linear(x, w, dtype="bfloat16"), x, w)
        found.append((y, *pull(dy)))
    jax.tree.map(np.testing.assert_array_equal, *found)
