"""Efficient attention: the input itself serves as keys and values."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.attention.parts import base


class Attention(base.Base):
    """``softmax(W_q x · cᵀ / √k) c W_o`` for a context c: two projections instead of four, and half the cache.

    EmbBERT-Q, section 3.1.2 and appendix B.3, has one head. With h heads, head j reads and mixes the j-th d/h of the
    context's channels. The paper's code has biases in both projections, its formulas have none.
    """

    heads: int = 1

    def projections(self):
        return {"query": self.width, "out": self.width}

    def project(self, context: Float[Array, "b s d"]):
        """The context as keys (and values) `[b h s k]`: the cache of calls that all attend to it."""
        return {"key": base.split(context, self.heads)}

    def empty_cache(self, batch, length):
        return {"key": jnp.zeros((batch, self.heads, length, self.head_size))}
