"""Local attention: each query sees a window of keys around it."""

import jax.numpy as jnp

from lwt.attention.parts import base, masks


class Attention(base.Base):
    """Softmax attention to the keys less than `window` positions away: |t − s| < window, and s ≤ t if causal.

    The sliding window of Beltagy et al. 2020 ("Longformer", section 3.1; its w is 2·window − 1 here). In the causal
    form, a query sees itself and the window − 1 positions before it. Blocks of `window` queries attend to their own
    block of keys and its neighbours, so cost and memory grow with n·window. The decode cache holds the last `window`
    keys; the newest replaces the oldest (Jiang et al. 2023, "Mistral 7B", section 2).

    Attributes:
        window: keys that a query sees to each side, itself included.
    """

    window: int = 128

    crosses = False
    positive = (*base.Base.positive, "window")

    def empty_cache(self, batch, length):
        return super().empty_cache(batch, min(length, self.window))

    def extend(self, cache, new, *, index):
        return super().extend(cache, new, index=index % cache["key"].shape[2])

    def mix(self, q, cache, *, mask, dtype, key=None):
        b, _, t, _ = q.shape
        if t <= self.window:
            return super().mix(q, cache, mask=mask, dtype=dtype, key=key)
        q, cache, allowed = windows(q, cache, mask=mask, window=self.window)
        return joined(self.weigh(q, cache, allowed=allowed, dtype=dtype, key=key), b=b, t=t)


def windows(q, cache, *, mask, window):
    """The blocks, of `window` positions, whose attention equals attention within the window.

    Returns:
        ``(q, cache, allowed)``: queries `[b·n h c k]` of n blocks; keys and values `[b·n h s k]` of each block, the one
        before it and, unless causal, the one after it (s = 2c or 3c); the mask of these pairs `[b·n 1 c s]`.
    """
    mask = masks.Mask() if mask is None else mask
    (b, _, t, _), causal = q.shape, mask.causal
    near = {name: around(x, window, causal=causal) for name, x in cache.items()}
    distance = jnp.arange(window)[:, None] - jnp.arange(-window, window if causal else 2 * window)[None, :]
    allowed = (distance < window) & (distance >= (0 if causal else 1 - window))
    keys = around(texts(mask.key_segments, b=b, t=t), window, causal=causal).swapaxes(2, 3)
    allowed = allowed & (keys > 0)
    if mask.query_segments is not None:
        allowed = allowed & (cut(texts(mask.query_segments, b=b, t=t), window) == keys)
    return cut(q, window), near, allowed


def cut(x, size):
    """Cuts positions into blocks, the last padded with zeros: `[b h t k] -> [b·n h size k]`."""
    b, h, t, k = x.shape
    count = -(-t // size)
    x = jnp.pad(x, ((0, 0), (0, 0), (0, count * size - t), (0, 0)))
    return x.reshape(b, h, count, size, k).swapaxes(1, 2).reshape(b * count, h, size, k)


def joined(x, *, b, t):
    """The inverse of `cut`: `[b·n h size k] -> [b h t k]`."""
    _, h, size, k = x.shape
    return x.reshape(b, -1, h, size, k).swapaxes(1, 2).reshape(b, h, -1, k)[:, :, :t]


def around(x, size, *, causal):
    """Each block with the one before it and, unless causal, the one after: `[b h t k] -> [b·n h 2·size|3·size k]`."""
    b, h, _, k = x.shape
    blocks = cut(x, size).reshape(b, -1, h, size, k)
    count, sides = blocks.shape[1], 2 if causal else 3
    blocks = jnp.pad(blocks, ((0, 0), (1, sides - 2), (0, 0), (0, 0), (0, 0)))
    near = jnp.concatenate([blocks[:, i : i + count] for i in range(sides)], axis=3)
    return near.reshape(b * count, h, sides * size, k)


def texts(segments, *, b, t):
    """Segments `[b t]` (None: one text) as an array `[b 1 t 1]` that can be cut as keys are."""
    return jnp.ones((b, 1, t, 1), int) if segments is None else segments[:, None, :, None]
