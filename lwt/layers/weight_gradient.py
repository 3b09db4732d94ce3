"""Weight gradients as products, laid out in memory such that XLA's CPU backend is fast."""

import jax
import jax.numpy as jnp

from lwt.layers import blocks


def product_over_rows(x, y):
    """``xᵀ y``, `[... n i]` and `[... n o] -> [... i o]`, with float32 sums: the gradient of a weight.

    XLA's CPU backend is slow at sums over the rows of both factors. So bfloat16 transposes x first; float32 transposes
    y, if it is much narrower than x: otherwise that gains nothing (measured: docs/design/speed.md).
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
