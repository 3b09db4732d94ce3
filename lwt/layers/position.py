"""Position encodings: the names of the kinds, and sinusoids, which also cover texts longer than those of training."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

KINDS = ("learned", "sinusoidal")


def sinusoidal(positions: Int[Array, "*p"], width: int) -> Float[Array, "*p d"]:
    """``PE(p, 2i) = sin(p / 10000^(2i/d))``, ``PE(p, 2i+1) = cos(p / 10000^(2i/d))``; d, the `width`, is even.

    A shift by k positions is a rotation of every pair (2i, 2i+1) by k / 10000^(2i/d), and the wavelengths
    2π·10000^(2i/d) form a geometric progression.

    Source: Vaswani et al. 2017, section 3.5; "Implementing Transformers", equation 1 and appendix 1.
    """
    frequencies = jnp.exp(-jnp.log(10000.0) * jnp.arange(0, width, 2) / width)
    angles = positions[..., None] * frequencies.reshape((1,) * positions.ndim + (-1,))
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(*positions.shape, width)


def sinusoidal_2d(rows: int, columns: int, *, width: int) -> Float[Array, "n d"]:
    """Encodes a grid, row by row: `sinusoidal` of the row in the first half of d (a multiple of 4), then the column."""
    row, column = jnp.divmod(jnp.arange(rows * columns), columns)
    return jnp.concatenate([sinusoidal(row, width // 2), sinusoidal(column, width // 2)], axis=-1)
