"""Where an array lies in memory, as far as products are fast or slow by it."""

import jax
import jax.numpy as jnp


def product_over_rows(x, y):
    """``xᵀ y``, `[... n i]` and `[... n o] -> [... i o]`, with sums in float32: what the gradient of a weight is.

    XLA's CPU backend is slow where both factors are summed over their rows. In bfloat16 x is transposed before, in
    float32 y, if it is much narrower than x: else that gains nothing (measured: docs/design/speed.md).
    """
    if x.dtype == jnp.bfloat16:
        return _product(jax.lax.platform_dependent(x, cpu=_written_out, default=_transpose), y)
    if x.shape[-1] <= 2 * y.shape[-1]:
        return _product(_transpose(x), y)
    return jax.lax.platform_dependent(x, y, cpu=_by_y_transposed, default=lambda x, y: _product(_transpose(x), y))


def _by_y_transposed(x, y):
    """As ``(yᵀ x)ᵀ``; the barriers keep the compiler from turning it back."""
    barrier = jax.lax.optimization_barrier
    return _transpose(barrier(_product(barrier(_transpose(y)), x)))


def _product(x, y):
    return jnp.matmul(x, y, preferred_element_type=jnp.float32)


def _transpose(x):
    return jnp.swapaxes(x, -1, -2)


def _written_out(x):
    """``xᵀ`` out of a branch: nothing is folded into a product from there, while a plain transposition is, in spite of
    barriers, and costs XLA's CPU backend its fast bfloat16 code (for sums along the last axis of the left factor)."""
    always = jax.lax.optimization_barrier(jnp.array(True))
    return jax.lax.cond(always, _transpose, lambda x: jnp.zeros_like(_transpose(x)), x)
