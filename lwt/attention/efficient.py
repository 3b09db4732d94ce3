"""Efficient attention: keys and values are the input itself."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.attention import softmax
from lwt.layers import linear


class Attention(softmax.Attention):
    """``softmax(W_q x · cᵀ / √k) c W_o`` where c is the context: two projections instead of four, half the cache.

    EmbBERT-Q, section 3.1.2 and appendix B.3, has one head. With h heads, head j reads and mixes the j-th d/h of the
    context's channels.

    Attributes:
        width: the model width d.
        heads: h; has to divide d. 1 in the paper.
        dropout: rate on the attention weights.
        use_bias: whether both projections have biases: in the paper's code they do, in its formulas they do not.
        dtype: operands of the products.
    """

    width: int
    heads: int = 1
    dropout: float = 0.0
    use_bias: bool = True
    dtype: str = "float32"

    def setup(self):
        for name in ("query", "out"):
            setattr(self, name, linear.Linear(self.width, use_bias=self.use_bias, dtype=self.dtype))

    def project(self, context: Float[Array, "b s d"]):
        """The context, as keys (and values) `[b h s k]`: the cache of calls that all attend to it."""
        return {"key": self._heads(context).swapaxes(1, 2)}

    def empty_cache(self, batch, length):
        """A cache for `length` steps of decoding."""
        return {"key": jnp.zeros((batch, self.heads, length, self.width // self.heads))}
