"""Efficient attention: keys and values are the input itself."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.attention import softmax
from lwt.layers import dropout, linear


class Attention(nn.Module):
    """``softmax(W_q x · cᵀ / √k) c W_o`` where c is the context: two projections instead of four, half the cache.

    EmbBERT-Q, section 3.1.2 and appendix B.3, has one head. With h heads, head j reads and mixes the j-th d/h of the
    context's channels.

    Attributes:
        width: the model width d.
        heads: h; has to divide d. 1 in the paper.
        dropout: rate on the attention weights.
        use_bias: whether both projections have biases: in the paper's code they do, in its formulas they do not.
        dtype: operands of the projections.
    """

    width: int
    heads: int = 1
    dropout: float = 0.0
    use_bias: bool = True
    dtype: str = "float32"

    def setup(self):
        for name in ("query", "out"):
            setattr(self, name, linear.Linear(self.width, use_bias=self.use_bias, dtype=self.dtype))
        self.drop = dropout.Dropout(self.dropout)

    def _heads(self, x):
        return x.reshape(*x.shape[:-1], self.heads, self.width // self.heads)

    def project(self, context: Float[Array, "b s d"]):
        """The context, as keys (and values) `[b h s k]`: the cache of calls that all attend to it."""
        return {"key": self._heads(context).swapaxes(1, 2)}

    def empty_cache(self, batch, length):
        """A cache for `length` steps of decoding."""
        return {"key": jnp.zeros((batch, self.heads, length, self.width // self.heads))}

    def __call__(
        self,
        x: Float[Array, "b t d"],
        context: Float[Array, "b s d"] | None = None,
        mask: Bool[Array, "#b #h #t s"] | None = None,
        *,
        train: bool = False,
        cache: dict[str, Float[Array, "b _h s _k"]] | None = None,
        index=None,
    ):
        """Attends from x to the context (to x itself without one).

        Args:
            x: `[b t d]`.
            context: `[b s d]`, or None.
            mask: `[b 1|h t s]`, True where allowed, or None.
            train: whether dropout acts.
            cache: keys from `project` (used as they are), or, with an `index`, from `empty_cache`.
            index: position at which x is written into the cache.

        Returns:
            `[b t d]`; with an index, ``(output, new cache)``.
        """
        q = self._heads(self.query(x)) * (self.width // self.heads) ** -0.5
        if cache is None:
            cache = self.project(x if context is None else context)
        elif index is not None:
            new = self.project(x)["key"]
            cache = {"key": jax.lax.dynamic_update_slice_in_dim(cache["key"], new, index, axis=2)}
        logits = jnp.einsum("bthk,bhsk->bhts", q, cache["key"])
        if mask is not None:
            logits = jnp.where(mask, logits, softmax.BLOCKED)
        weights = self.drop(jax.nn.softmax(logits), train=train)
        mixed = jnp.einsum("bhts,bhsk->bthk", weights, cache["key"])
        y = self.out(mixed.reshape(x.shape))
        return y if index is None else (y, cache)
