"""Sparse attention: a query sees the positions near it, and some that stand for those far away."""

import functools

import jax
import jax.numpy as jnp

from lwt.attention import local
from lwt.attention.parts import base, core, masks


class Attention(base.Base):
    """Softmax attention to the pattern of a sparse transformer (Child et al. 2019, section 4.3), with l = `stride`.

    Query t sees key s ("strided") if |t − s| ≤ l or l divides t − s; ("fixed") if both are in the same block of l
    positions or s is among the last c of its block (s mod l ≥ l − c), c = `summary`. Causal, s ≤ t too, as in the
    paper; without, it is the same pattern to both sides. Of the paper's ways to give heads the two parts of a pattern,
    this is the merged one (section 4.2): every head sees both.

    Each pair is in one part only: the near keys, by blocks of l (as in `local.py`, or the query's own block), and the
    far ones, which are columns of the sequence written in rows of l, or the last c of the other blocks. The parts'
    outputs are weighed by the sums that normalised them, which makes it softmax over both. With l near √n, cost and
    memory grow with n·√n (for "fixed" c times that at most).

    Rows of several texts keep the strided pattern's form. The fixed pattern counts positions from the start of a text,
    where no blocks fit, so that it then takes softmax attention with the pattern as a mask: the same function, without
    the saving. So does decoding, whose cache holds all keys.

    Attributes:
        pattern: "strided" or "fixed".
        stride: l.
        summary: c of the fixed pattern.
    """

    pattern: str = "strided"
    stride: int = 128
    summary: int = 8
    crosses = False

    def check(self):
        """Refuses fields that do not fit together."""
        super().check()
        if self.pattern not in ("strided", "fixed"):
            raise self.refuse(f"pattern={self.pattern!r} should be 'strided' or 'fixed'")
        if self.stride < 1:
            raise self.refuse(f"stride={self.stride} should be at least 1")
        if self.pattern == "fixed" and not 1 <= self.summary <= self.stride:
            raise self.refuse(f"summary={self.summary} should be from 1 to stride={self.stride}")

    def sees(self, t, s):
        """Whether the pattern joins query t and key s, counted from the start of their text (integers or arrays)."""
        if self.pattern == "strided":
            return (jnp.abs(t - s) < self.stride) | ((t - s) % self.stride == 0)
        return (t // self.stride == s // self.stride) | (s % self.stride >= self.stride - self.summary)

    def recall(self, q, cache, index):
        """What query `[b h 1 k]` of position `index` reads from a cache that already holds its own key: `[b h 1 k]`."""
        s = jnp.arange(cache["key"].shape[2])
        seen = ((s <= index) & self.sees(index, s))[None, None, None, :]
        return self.weigh(q, cache, seen, dtype="float32")

    def mix(self, q, cache, mask, *, dtype, key=None):
        """See `base.Base`."""
        t = q.shape[2]
        if t <= self.stride:
            return super().mix(q, cache, mask, dtype=dtype, key=key)
        mask = masks.Mask() if mask is None else mask
        if self.pattern == "fixed" and mask.query_segments is not None:
            place = _places(mask.key_segments)
            allowed = mask.array(t, t) & self.sees(place[:, None, :, None], place[:, None, None, :])
            return self.weigh(q, cache, allowed, dtype=dtype, key=key)
        make = _strided if self.pattern == "strided" else functools.partial(_fixed, summary=self.summary)
        outputs, totals = zip(*self._parts(make(q, cache, mask, self.stride), dtype, key))
        share = jax.nn.sigmoid(totals[0] - totals[1])
        return share * outputs[0] + (1 - share) * outputs[1]

    def _parts(self, parts, dtype, key):
        for number, (q, cache, allowed, joined) in enumerate(parts):
            part_key = None if key is None else jax.random.fold_in(key, number)
            settings = {"key": part_key, "rate": self.dropout, "dtype": dtype}
            output, total = core.attend_with_total(q, cache["key"], cache["value"], allowed, **settings)
            yield joined(output), joined(total)


def _strided(q, cache, mask, stride):
    """The parts of the strided pattern: the window of `local.py`, and the columns of the sequence in rows of l."""
    b, _, t, _ = q.shape
    near = *local.windows(q, cache, mask, stride), lambda x: local.joined(x, b, t)

    def columns(x):  # [b h t k] -> [b·l h n k]
        x = local.cut(x, stride)
        x = x.reshape(b, -1, *x.shape[1:]).transpose(0, 3, 2, 1, 4)
        return x.reshape(b * stride, *x.shape[2:])

    def joined(x):
        x = x.reshape(b, stride, *x.shape[1:]).transpose(0, 2, 3, 1, 4)
        return x.reshape(*x.shape[:2], -1, x.shape[-1])[:, :, :t]

    keys = columns(local.texts(mask.key_segments, b, t)).swapaxes(2, 3)
    allowed = _others(keys.shape[3], mask.causal) & (keys > 0)
    if mask.query_segments is not None:
        allowed = allowed & (columns(local.texts(mask.query_segments, b, t)) == keys)
    return near, (columns(q), {name: columns(x) for name, x in cache.items()}, allowed, joined)


def _fixed(q, cache, mask, stride, summary):
    """The parts of the fixed pattern: a query's own block, and the last c positions of the others."""
    b, _, t, _ = q.shape
    cut = functools.partial(local.cut, size=stride)
    keys = local.texts(mask.key_segments, b, t)
    allowed = cut(keys).swapaxes(2, 3) > 0
    if mask.causal:
        allowed = allowed & jnp.tri(stride, dtype=bool)
    near = cut(q), {name: cut(x) for name, x in cache.items()}, allowed, lambda x: local.joined(x, b, t)

    def last(x):  # [b h t k] -> [b h n·c k]
        return local.joined(cut(x)[:, :, stride - summary :], b, None)

    keys = last(keys).swapaxes(2, 3)
    others = _others(keys.shape[3] // summary, mask.causal)
    others = jnp.repeat(jnp.repeat(others, stride, axis=0)[:t], summary, axis=1)
    return near, (q, {name: last(x) for name, x in cache.items()}, others & (keys > 0), lambda x: x)


def _others(n, causal):
    """Pairs `[n n]` of different places; if causal, the second before the first."""
    return jnp.tri(n, k=-1, dtype=bool) if causal else ~jnp.eye(n, dtype=bool)


def _places(segments):
    """Positions counted from the start of each text: `[b t]`."""
    t = jnp.arange(segments.shape[1])
    starts = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    return t - jax.lax.cummax(jnp.where(starts, t, 0), axis=1)
