"""Sparse attention: a query sees the positions near it and a few that summarise those far away."""

import functools

import jax
import jax.numpy as jnp

from lwt.attention import local
from lwt.attention.parts import base, core, masks


class Attention(base.Base):
    """Softmax attention in the pattern of a sparse transformer (Child et al. 2019, section 4.3), with l = `stride`.

    In the "strided" pattern, query t sees key s if |t − s| ≤ l or l divides t − s. In the "fixed" one, it does if both
    are in the same block of l positions or s is among the last c = `summary` of its block (s mod l ≥ l − c). The causal
    form also requires s ≤ t, as in the paper; otherwise the pattern is the same to both sides. Every head sees both
    parts of the pattern: the merged heads of the paper's section 4.2.

    Each pair is in one part only. The near keys are handled by blocks of l (as in `local.py`, or the query's own
    block). The far ones are columns of the sequence written in rows of l, or the last c of the other blocks. The
    outputs of the parts are weighted by the sums that normalised them, which makes it softmax over both. With l near
    √n, cost and memory grow with n·√n (for "fixed" at most c times that).

    The fixed pattern counts positions from the start of each text. In rows of several texts it uses softmax attention
    with the pattern as a mask: the same function without the saving. So does decoding, whose cache holds all keys.

    Attributes:
        pattern: "strided" or "fixed".
        stride: l.
        summary: c of the fixed pattern.
    """

    pattern: str = "strided"
    stride: int = 128
    summary: int = 8

    crosses = False
    positive = (*base.Base.positive, "stride")
    choices = {"pattern": ("strided", "fixed")}

    def check(self):
        super().check()
        if self.pattern == "fixed" and not 1 <= self.summary <= self.stride:
            raise self.refuse(f"summary={self.summary} must be between 1 and stride={self.stride}")

    def sees(self, t, s):
        """Whether query t sees key s, both counted from the start of their text (integers or arrays)."""
        if self.pattern == "strided":
            return (jnp.abs(t - s) < self.stride) | ((t - s) % self.stride == 0)
        return (t // self.stride == s // self.stride) | (s % self.stride >= self.stride - self.summary)

    def recall(self, q, cache, *, index):
        s = jnp.arange(cache["key"].shape[2])
        seen = ((s <= index) & self.sees(index, s))[None, None, None, :]
        return self.weigh(q, cache, allowed=seen, dtype="float32")

    def mix(self, q, cache, *, mask, dtype, key=None):
        t = q.shape[2]
        if t <= self.stride:
            return super().mix(q, cache, mask=mask, dtype=dtype, key=key)
        mask = masks.Mask() if mask is None else mask
        if self.pattern == "fixed" and mask.query_segments is not None:
            place = _places(mask.key_segments)
            allowed = mask.array(t, t) & self.sees(place[:, None, :, None], place[:, None, None, :])
            return self.weigh(q, cache, allowed=allowed, dtype=dtype, key=key)
        make = _strided if self.pattern == "strided" else functools.partial(_fixed, summary=self.summary)
        outputs, totals = zip(*self._parts(make(q, cache, mask, self.stride), dtype, key))
        share = jax.nn.sigmoid(totals[0] - totals[1])
        return share * outputs[0] + (1 - share) * outputs[1]

    def _parts(self, parts, dtype, key):
        for number, (q, cache, allowed, joined) in enumerate(parts):
            part_key = None if key is None else jax.random.fold_in(key, number)
            settings = {"mask": allowed, "key": part_key, "rate": self.dropout, "dtype": dtype}
            output, total = core.attend_with_total(q, cache["key"], v=cache["value"], **settings)
            yield joined(output), joined(total)


def _strided(q, cache, mask, stride):
    """The parts of the strided pattern: the window of `local.py`, and the columns of the sequence in rows of l.

    Each is ``(q, cache, allowed, joined)``; the last puts an output back in order.
    """
    b, _, t, _ = q.shape
    near = *local.windows(q, cache, mask=mask, window=stride), functools.partial(local.joined, b=b, t=t)

    def columns(x):  # [b h t k] -> [b·l h n k]
        x = local.cut(x, stride)
        x = x.reshape(b, -1, *x.shape[1:]).transpose(0, 3, 2, 1, 4)
        return x.reshape(b * stride, *x.shape[2:])

    def joined(x):
        x = x.reshape(b, stride, *x.shape[1:]).transpose(0, 2, 3, 1, 4)
        return x.reshape(*x.shape[:2], -1, x.shape[-1])[:, :, :t]

    keys = columns(local.texts(mask.key_segments, b=b, t=t)).swapaxes(2, 3)
    allowed = _others(keys.shape[3], mask.causal) & (keys > 0)
    if mask.query_segments is not None:
        allowed = allowed & (columns(local.texts(mask.query_segments, b=b, t=t)) == keys)
    return near, (columns(q), {name: columns(x) for name, x in cache.items()}, allowed, joined)


def _fixed(q, cache, mask, stride, summary):
    """The parts of the fixed pattern, as of `_strided`: a query's own block, and the last c positions of the others."""
    b, _, t, _ = q.shape
    cut = functools.partial(local.cut, size=stride)
    keys = local.texts(mask.key_segments, b=b, t=t)
    allowed = cut(keys).swapaxes(2, 3) > 0
    if mask.causal:
        allowed = allowed & jnp.tri(stride, dtype=bool)
    near = cut(q), {name: cut(x) for name, x in cache.items()}, allowed, functools.partial(local.joined, b=b, t=t)

    def last(x):  # [b h t k] -> [b h n·c k]
        return local.joined(cut(x)[:, :, stride - summary :], b=b, t=None)

    keys = last(keys).swapaxes(2, 3)
    others = _others(keys.shape[3] // summary, mask.causal)
    others = jnp.repeat(jnp.repeat(others, stride, axis=0)[:t], summary, axis=1)
    return near, (q, {name: last(x) for name, x in cache.items()}, others & (keys > 0), lambda x: x)


def _others(n, causal):
    """Pairs `[n n]` of different places; if causal, those whose second place is before the first."""
    place = jnp.arange(n)
    return place[:, None] > place if causal else place[:, None] != place


def _places(segments):
    """Positions counted from the start of each text: `[b t]`."""
    t = jnp.arange(segments.shape[1])
    starts = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    return t - jax.lax.cummax(jnp.where(starts, t, 0), axis=1)
