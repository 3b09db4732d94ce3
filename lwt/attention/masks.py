"""Masks: True where attention is allowed, `[b 1 t s]`."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def segments(target: Int[Array, "b t"], source: Int[Array, "b s"]) -> Bool[Array, "b 1 t s"]:
    """Attention inside the same segment only; segment 0 is padding.

    Args:
        target: `[b t]` segment numbers of the queries; source: `[b s]` of the keys.
    """
    same = target[:, None, :, None] == source[:, None, None, :]
    return same & (source > 0)[:, None, None, :]


def causal(length: int) -> Bool[Array, "1 1 t t"]:
    """`[1 1 t t]`: position t sees s ≤ t."""
    steps = jnp.arange(length)
    return (steps[None, :] <= steps[:, None])[None, None]
