"""Masks: True where attention is allowed, `[b 1 t s]`."""

import jax.numpy as jnp


def segments(target, source):
    """Attention inside the same segment only; segment 0 is padding.

    Args:
        target: `[b t]` segment numbers of the queries; source: `[b s]` of the keys.
    """
    same = target[:, None, :, None] == source[:, None, None, :]
    return same & (source > 0)[:, None, None, :]


def causal(length):
    """`[1 1 t t]`: position t sees s ≤ t."""
    steps = jnp.arange(length)
    return (steps[None, :] <= steps[:, None])[None, None]
