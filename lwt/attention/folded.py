"""Folded attention: positions are dealt out to places and attend only within their own place."""

import math

import jax
import jax.numpy as jnp

from lwt.attention import softmax
from lwt.attention.parts import masks


class Attention(softmax.Attention):
    """Softmax attention between positions t and s with ``t ≡ s (mod p)``: scores cost 1/p of full attention's.

    On a sequence, this is the strided pattern of sparse attention without its window. On a map (`side`), it is what
    Radar-ViT of LH-ViT does between its unfold and fold, after MobileViT (Mehta and Rastegari 2022, section 3.1):
    place k of a patch attends to place k of all patches.

    No number of these layers mixes one place with another: something else must, such as a convolution before them.

    Attributes:
        places: p. On a map, a square number: patches have a side of √p.
        side: side of the square map whose pixels, row by row, are the sequence; 0: the sequence is not a map. ViT has a
            map with ``pool="mean"``. A map has no order, and so no causal form.
    """

    places: int = 4
    side: int = 0

    crosses = False
    positive = (*softmax.Attention.positive, "places")

    def check(self):
        super().check()
        if self.side and (self._patch**2 != self.places or self.side % self._patch):
            raise self.refuse(
                f"places={self.places} must be the square of a divisor of side={self.side}: patches are squares"
            )

    @property
    def _patch(self):
        """Side of a patch of a map."""
        return round(self.places**0.5)

    def mix(self, q, cache, *, mask, dtype, key=None):
        """As in `base.Base`; raises ConfigError for a sequence that is not the map, and for a causal mask on a map."""
        b, t = q.shape[0], q.shape[2]
        grid = self._grid(t)
        if self.side and mask is not None and mask.causal:
            raise self.refuse(f"side={self.side}: a map has no causal form; set side to 0")
        q, mask = _unfold(q, grid), _unfold_mask(mask, grid, b, t)
        kv = {name: _unfold(x, grid) for name, x in cache.items()}
        mixed = super().mix(q, kv, mask=mask, dtype=dtype, key=key)
        return _fold(mixed, grid)[:, :, :t]

    def _grid(self, t):
        """``(patches, places, patches, places)``, down and across; a sequence is a map with one row."""
        if not self.side:
            return 1, 1, -(-t // self.places), self.places
        if t != self.side**2:
            raise self.refuse(
                f"side={self.side} does not fit {t} positions: side² must equal their number. A class token has no "
                "place in a map (set model.pool to 'mean')"
            )
        return (self.side // self._patch, self._patch) * 2

    def empty_cache(self, batch, length):
        """A cache `[b h p n k]` for `length` decoding steps, each of which reads only its own place."""
        shape = (batch, self.key_heads, self.places, -(-length // self.places), self.head_size)
        return {"key": jnp.zeros(shape), "value": jnp.zeros(shape)}

    def extend(self, cache, new, *, index):
        at = (0, 0, index % self.places, index // self.places, 0)
        return {name: jax.lax.dynamic_update_slice(cache[name], new[name][:, :, None], at) for name in new}

    def recall(self, q, cache, *, index):
        at = index % self.places
        own = {name: jax.lax.dynamic_index_in_dim(x, at, axis=2, keepdims=False) for name, x in cache.items()}
        return super().recall(q, own, index=index // self.places)


def _unfold(x, grid):
    """`[b h t k] -> [b·p h n k]`, the positions of a place side by side; t is padded to p·n."""
    (b, h, t, k), (down, rows, across, columns) = x.shape, grid
    x = jnp.pad(x, ((0, 0), (0, 0), (0, math.prod(grid) - t), (0, 0)))
    x = x.reshape(b, h, down, rows, across, columns, k).transpose(0, 3, 5, 1, 2, 4, 6)
    return x.reshape(b * rows * columns, h, down * across, k)


def _fold(x, grid):
    """The inverse of `_unfold`, padding included."""
    (_, h, _, k), (down, rows, across, columns) = x.shape, grid
    x = x.reshape(-1, rows, columns, h, down, across, k).transpose(0, 3, 4, 1, 5, 2, 6)
    return x.reshape(x.shape[0], h, -1, k)


def _unfold_mask(mask, grid, b, t):
    """The mask of unfolded positions; their order within a place stays the same."""
    if math.prod(grid) == t and (mask is None or mask.key_segments is None):
        return mask
    mask = mask or masks.Mask()

    def turn(segments):
        return _unfold(jnp.broadcast_to(segments, (b, t))[:, None, :, None], grid)[:, 0, :, 0]

    keys = turn(jnp.ones((b, t), jnp.int32) if mask.key_segments is None else mask.key_segments)
    queries = None if mask.query_segments is None else turn(mask.query_segments)
    return masks.Mask(keys, queries, causal=mask.causal)
