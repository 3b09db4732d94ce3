"""Folded attention: positions are dealt out to places, and attend to those of their own place only."""

import math

import jax
import jax.numpy as jnp

from lwt.attention import softmax
from lwt.attention.parts import masks


class Attention(softmax.Attention):
    """Softmax attention between positions t and s with ``t ≡ s (mod p)``: the scores cost a p-th.

    For a sequence, this is the strided pattern of sparse attention by itself. For a map (`side`) it is what LH-ViT's
    Radar-ViT does between its unfold and fold, after MobileViT (Mehta and Rastegari 2022, section 3.1): place k of a
    patch attends to place k of all patches.

    Nothing here mixes one place with another, however many layers there are: something else has to, such as a
    convolution before it.

    Attributes:
        places: p. Of a map, a square number: its patches have a side of √p.
        side: of the square map whose places, row by row, are the sequence; 0: it is no map. ViT has one with
            ``pool="mean"``. A map has no order, and so no causal form.
    """

    places: int = 4
    side: int = 0

    crosses = False

    def check(self):
        """Refuses fields that do not fit together."""
        super().check()
        if self.places < 1 or self.side < 0:
            raise self.refuse(f"places={self.places} should be at least 1, and side={self.side} not negative")
        if self.side and (self._patch**2 != self.places or self.side % self._patch):
            raise self.refuse(
                f"places={self.places} should be the square of a divisor of side={self.side}: a patch is a square"
            )

    @property
    def _patch(self):
        """Side of a patch of a map."""
        return round(self.places**0.5)

    def mix(self, q, cache, mask, *, dtype, key=None):
        """See `base.Base`.

        Raises:
            lwt.errors.ConfigError: the sequence is no map of this side, or a map is to be causal.
        """
        b, t = q.shape[0], q.shape[2]
        grid = self._grid(t)
        if self.side and mask is not None and mask.causal:
            raise self.refuse(f"side={self.side}: a map has no causal form; side should be 0")
        q, mask = _unfold(q, grid), _unfold_mask(mask, grid, b, t)
        kv = {name: _unfold(x, grid) for name, x in cache.items()}
        mixed = super().mix(q, kv, mask, dtype=dtype, key=key)
        return _fold(mixed, grid)[:, :, :t]

    def _grid(self, t):
        """``(patches, places, patches, places)``: down and across; a sequence is a map of one row."""
        if not self.side:
            return 1, 1, -(-t // self.places), self.places
        if t != self.side**2:
            raise self.refuse(
                f"side={self.side} does not fit {t} positions, it should be the root of their number; a class token "
                "has no place in a map (model.pool should be 'mean')"
            )
        return (self.side // self._patch, self._patch) * 2

    def empty_cache(self, batch, length):
        """A cache `[b h p n k]` for `length` steps of decoding, which reads only its own place at each."""
        shape = (batch, self.key_heads, self.places, -(-length // self.places), self.head_size)
        return {"key": jnp.zeros(shape), "value": jnp.zeros(shape)}

    def extend(self, cache, new, index):
        """The cache with the keys and values `new` of position `index`."""
        at = (0, 0, index % self.places, index // self.places, 0)
        return {name: jax.lax.dynamic_update_slice(cache[name], new[name][:, :, None], at) for name in new}

    def recall(self, q, cache, index):
        """See `base.Base`."""
        at = index % self.places
        own = {name: jax.lax.dynamic_index_in_dim(x, at, axis=2, keepdims=False) for name, x in cache.items()}
        return super().recall(q, own, index // self.places)


def _unfold(x, grid):
    """`[b h t k] -> [b·p h n k]`, the positions of a place side by side; t is filled up to p·n."""
    (b, h, t, k), (down, rows, across, columns) = x.shape, grid
    x = jnp.pad(x, ((0, 0), (0, 0), (0, math.prod(grid) - t), (0, 0)))
    x = x.reshape(b, h, down, rows, across, columns, k).transpose(0, 3, 5, 1, 2, 4, 6)
    return x.reshape(b * rows * columns, h, down * across, k)


def _fold(x, grid):
    """The inverse of `_unfold`, with what it filled up."""
    (_, h, _, k), (down, rows, across, columns) = x.shape, grid
    x = x.reshape(-1, rows, columns, h, down, across, k).transpose(0, 3, 4, 1, 5, 2, 6)
    return x.reshape(x.shape[0], h, -1, k)


def _unfold_mask(mask, grid, b, t):
    """The mask of what `_unfold` gives; that a position is after another stays true within a place."""
    if math.prod(grid) == t and (mask is None or mask.key_segments is None):
        return mask
    mask = mask or masks.Mask()
    turn = lambda x: _unfold(jnp.broadcast_to(x, (b, t))[:, None, :, None], grid)[:, 0, :, 0]  # noqa: E731
    keys = turn(jnp.ones((b, t), jnp.int32) if mask.key_segments is None else mask.key_segments)
    queries = None if mask.query_segments is None else turn(mask.query_segments)
    return masks.Mask(keys, queries, causal=mask.causal)
