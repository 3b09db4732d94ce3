"""Operands and forms of products with which XLA's CPU backend is fast (measured: docs/design/speed.md).

A processor without units for bfloat16 multiplies it several times slower than float32. There, operands are rounded to
bfloat16 and held as float32: the same products, summed in another order, in the time of float32.
"""

import functools

import jax
import jax.numpy as jnp

from lwt.layers import blocks
from lwt.machine import hardware


def held_in(dtype):
    """The dtype that holds operands rounded to `dtype`: float32 in place of bfloat16 on processors slow in bfloat16."""
    dtype = jnp.dtype(dtype)
    return jnp.dtype("float32") if dtype == jnp.bfloat16 and hardware.slow_in_bfloat16() else dtype


def rounded(x, dtype, *, once=False):
    """x rounded to `dtype`, in ``held_in(dtype)``, without a gradient.

    bfloat16 on a CPU is computed by integer operations, in half of XLA's time.

    Args:
        once: whether XLA's CPU backend writes the result, even where it could fuse it into everything that reads it.
    """
    if jnp.dtype(dtype) != jnp.bfloat16:
        return x.astype(dtype)
    if held_in(dtype) == jnp.float32:
        x, narrow = x.astype(jnp.float32), lambda x: jax.lax.bitcast_convert_type(_rounded_bits(x), jnp.float32)
        return blocks.unfused(narrow, x) if once else narrow(x)
    if x.dtype != jnp.float32:
        return x.astype(dtype)
    on_cpu = functools.partial(blocks.unfused, _upper_half) if once else _upper_half
    return jax.lax.platform_dependent(x, cpu=on_cpu, default=lambda x: x.astype(jnp.bfloat16))


def operand(x, dtype):
    """Like `rounded`, by XLA's own conversion where the processor has one, and with a gradient: that of x itself."""
    return _operand(x, jnp.dtype(dtype).name) if held_in(dtype) != jnp.dtype(dtype) else x.astype(dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _operand(x, dtype):
    return rounded(x, dtype)


@_operand.defjvp
def _operand_jvp(dtype, primals, tangents):
    return _operand(*primals, dtype), tangents[0].astype(held_in(dtype))


def _rounded_bits(x):
    """The bits of float32 x, rounded to their upper half: to the nearest, ties to even; NaN stays NaN."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    upper = (bits + 0x7FFF + ((bits >> 16) & 1)) & jnp.uint32(0xFFFF0000)
    return jnp.where(jnp.isnan(x), jnp.uint32(0x7FC00000), upper)


def _upper_half(x):
    return jax.lax.bitcast_convert_type((_rounded_bits(x) >> 16).astype(jnp.uint16), jnp.bfloat16)


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
    """``xᵀ`` by way of other axes or from a branch (`blocks.unfused`), which XLA does not fold into the product.

    It folds a plain transposition despite barriers, and then its CPU backend loses the fast bfloat16 code.
    """
    if not blocks.BARRIERS_HOLD:
        return blocks.unfused(_transpose, x)
    barrier = jax.lax.optimization_barrier
    transposed = _transpose(barrier(x))
    *outer, i, n = transposed.shape
    axes = (-1, n) if outer else (2, i // 2, n) if i % 2 == 0 else (-1,)  # the last is the slowest
    return barrier(transposed.reshape(axes)).reshape(transposed.shape)
