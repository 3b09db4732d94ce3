"""What a query may see, said in parts, so that no attention has to hold an array `[t s]` that does not need one."""

import typing

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool


@flax.struct.dataclass
class Mask:
    """Query t sees key s if the key is no padding, of the query's own text, and, if `causal`, not behind it (s ≤ t).

    Attributes:
        keys: int `[b s]`, the segment (text) that each key belongs to, 0 for padding; None: there is no padding.
        queries: int `[b t]`, the segment of each query; None: every row holds one text only.
        causal: whether a query sees only itself and what comes before it.
    """

    keys: typing.Any = None  # no annotations of shapes: JAX puts other things than arrays into its pytrees
    queries: typing.Any = None
    causal: bool = flax.struct.field(pytree_node=False, default=False)

    def real(self, s) -> Bool[Array, "#b s"]:
        """The keys that are no padding, of `s` in a row."""
        return jnp.ones((1, s), bool) if self.keys is None else self.keys > 0

    def array(self, t, s, start=0) -> Bool[Array, "#b 1 #t s"]:
        """The mask as an array, True where attention is allowed.

        Args:
            t: queries, from position `start` (which may be traced) on.
            s: keys.
        """
        allowed = self.real(s)[:, None, None, :]
        rows = start + jnp.arange(t)
        if self.queries is not None:
            queries = jnp.take(self.queries, rows, axis=1, mode="clip")
            allowed = allowed & (queries[:, None, :, None] == self.keys[:, None, None, :])
        if self.causal:
            allowed = allowed & (jnp.arange(s)[None, :] <= rows[:, None])
        return allowed
