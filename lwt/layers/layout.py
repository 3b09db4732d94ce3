"""Where an array lies in memory, as far as products are fast or slow by it."""

import jax
import jax.numpy as jnp


def transposed(x):
    """``x [... n m] -> [... m n]``, written out where that makes the product it goes into faster.

    XLA's CPU backend has fast bfloat16 code for products whose sum runs along the last axis of the left factor. A
    plain transposition it would fold into the product, which then runs as slowly as in float32 (measured: 2 to 3 times
    as long); out of a branch nothing is folded.
    """
    if x.dtype != jnp.bfloat16:
        return _transpose(x)
    return jax.lax.platform_dependent(x, cpu=_written_out, default=_transpose)


def _transpose(x):
    return jnp.swapaxes(x, -1, -2)


def _written_out(x):
    always = jax.lax.optimization_barrier(jnp.array(True))
    return jax.lax.cond(always, _transpose, lambda x: jnp.zeros_like(_transpose(x)), x)
