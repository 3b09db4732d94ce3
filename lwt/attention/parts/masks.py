"""What a query may see, stated in parts, so that an attention forms an array `[t s]` only if it needs one."""

import typing

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool


@flax.struct.dataclass
class Mask:
    """Query t sees key s if the key is not padding, belongs to the query's own text and, if `causal`, s ≤ t.

    Attributes:
        key_segments: int `[b s]`, the segment (text) each key belongs to, 0 for padding; None: there is no padding.
        query_segments: int `[b t]`, the segment of each query; None: every row holds one text.
        causal: whether a query sees only itself and earlier positions.
        nothing: whether the last key is not a position of the row but one that every query sees; see `softmax_one.py`.
    """

    key_segments: typing.Any = None  # no shape annotation: JAX also puts objects that are not arrays into pytrees
    query_segments: typing.Any = None
    causal: bool = flax.struct.field(pytree_node=False, default=False, kw_only=True)
    nothing: bool = flax.struct.field(pytree_node=False, default=False, kw_only=True)

    def real(self, s) -> Bool[Array, "#b s"]:
        """Which of the `s` keys of a row are not padding."""
        return jnp.ones((1, s), bool) if self.key_segments is None else self.key_segments > 0

    def array(self, t, s, *, start=0) -> Bool[Array, "#b 1 #t s"]:
        """True where one of t queries, from position `start` on (which may be traced), may attend to one of s keys."""
        if self.nothing:
            allowed = self.replace(nothing=False).array(t, s - 1, start=start)
            return jnp.pad(allowed, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=True)
        allowed = self.real(s)[:, None, None, :]
        rows = start + jnp.arange(t)
        if self.query_segments is not None:
            queries = jnp.take(self.query_segments, rows, axis=1, mode="clip")
            allowed = allowed & (queries[:, None, :, None] == self.key_segments[:, None, None, :])
        if self.causal:
            allowed = allowed & (jnp.arange(s)[None, :] <= rows[:, None])
        return allowed
