"""Multi-head scaled dot-product attention."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.layers import attend, linear


class Attention(nn.Module):
    """``softmax(Q Kᵀ / √k) V`` in h heads (Vaswani et al. 2017, section 3.2; "Implementing Transformers", equation 2).

    Attributes:
        width: the model width d.
        heads: h; has to divide d. The head width is k = d/h.
        dropout: rate on the attention weights.
        dtype: operands of the products.
    """

    width: int
    heads: int
    dropout: float = 0.0
    dtype: str = "float32"

    def setup(self):
        for name in ("query", "key", "value", "out"):
            setattr(self, name, linear.Linear(self.width, dtype=self.dtype))

    def _heads(self, x):
        return x.reshape(*x.shape[:-1], self.heads, self.width // self.heads)

    def project(self, context: Float[Array, "b s d"]):
        """Keys and values `[b h s k]` of a context `[b s d]`, as the cache of calls that all attend to it.

        Heads come before positions: a step of decoding then reads each head's keys in one stretch, which was
        faster than the other order in a comparison on a busy CPU.
        """
        split = {"key": self._heads(self.key(context)), "value": self._heads(self.value(context))}
        return {name: x.swapaxes(1, 2) for name, x in split.items()}

    def empty_cache(self, batch, length):
        """A cache for `length` steps of decoding."""
        zeros = jnp.zeros((batch, self.heads, length, self.width // self.heads))
        return {"key": zeros, "value": zeros}

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
            cache: keys and values from `project` (used as they are), or, with an `index`, from `empty_cache`.
            index: position at which the keys and values of x are written into the cache.

        Returns:
            `[b t d]`; with an index, ``(output, new cache)``.
        """
        q = self._heads(self.query(x)) * (self.width // self.heads) ** -0.5
        dtype = self.dtype if cache is None else "float32"  # decoding: products of vectors gain nothing
        if cache is None:
            cache = self.project(x if context is None else context)
        elif index is not None:
            new = self.project(x)
            cache = {name: jax.lax.dynamic_update_slice_in_dim(cache[name], new[name], index, axis=2) for name in new}
        key = self.make_rng("dropout") if train and self.dropout else None
        values = cache.get("value", cache["key"])  # no values: see efficient.py
        mixed = attend.attend(q.swapaxes(1, 2), cache["key"], values, mask, key=key, rate=self.dropout, dtype=dtype)
        y = self.out(mixed.swapaxes(1, 2).reshape(x.shape))
        return y if index is None else (y, cache)
