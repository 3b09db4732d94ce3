"""Operands and forms of products with which XLA's CPU backend is fast (measured: docs/design/speed.md)."""

import functools

import jax
import jax.numpy as jnp

from lwt.layers import blocks


def rounded(x, dtype, *, once=False):
    """``x.astype(dtype)``, without a gradient; bfloat16 on a CPU by integer operations, in half of XLA's time.

    Args:
        once: whether XLA's CPU backend writes the result, also where it could fuse it into everything that reads it.
    """
    if x.dtype != jnp.float32 or jnp.dtype(dtype) != jnp.bfloat16:
        return x.astype(dtype)
    on_cpu = functools.partial(blocks.unfused, _rounded_bits) if once else _rounded_bits
    return jax.lax.platform_dependent(x, cpu=on_cpu, default=lambda x: x.astype(jnp.bfloat16))


def _rounded_bits(x):
    """The upper half of the bits, rounded to nearest, ties to even; NaN stays NaN."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    upper = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return jax.lax.bitcast_convert_type(jnp.where(jnp.isnan(x), 0x7FC0, upper).astype(jnp.uint16), jnp.bfloat16)


def product_over_rows(x, y):
    """``xᵀ y``, `[... n i]` and `[... n o] -> [... i o]`, with float32 sums: the gradient of a weight.

    XLA's CPU backend is slow at sums over the rows of both factors. So bfloat16 transposes x first; float32 transposes
    y, if it is much narrower than x: otherwise that gains nothing.
    """
    if x.dtype == jnp.bfloat16:
        product = _product(jax.lax.platform_dependent(x, cpu=_written_out, default=_transpose), y)
        return jax.lax.optimization_barrier(product)  # a weight `table.T` transposes it: see `_product`
    if x.shape[-1] <= 2 * y.shape[-1]:
        return _product(_transpose(x), y)
    return jax.lax.platform_dependent(x, y, cpu=_by_y_transposed, default=lambda x, y: _product(_transpose(x), y))


def _by_y_transposed(x, y):
    """Computes ``(yᵀ x)ᵀ``; the barriers stop the compiler from undoing it."""
    barrier = jax.lax.optimization_barrier
    return _transpose(barrier(_product(barrier(_transpose(y)), x)))


def _product(x, y):
    """``x y``. XLA's CPU backend folds a transposition of the result into it, and then has no code for bfloat16."""
    return jnp.matmul(x, y, preferred_element_type=jnp.float32)


def _transpose(x):
    return jnp.swapaxes(x, -1, -2)


def _written_out(x):
    """``xᵀ`` from a branch, which XLA does not fold into the product.

    It folds a plain transposition despite barriers, and then its CPU backend loses the fast bfloat16 code.
    """
    return blocks.unfused(_transpose, x)
