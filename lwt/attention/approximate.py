"""Softmax attention with a gradient that is near-linear in the length: approximate LoRA gradients."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.attention import softmax
from lwt.attention.parts import core, polynomial

LARGEST = 2**27  # most numbers in the sums of one head


class Attention(softmax.Attention):
    """Softmax attention with the backward pass of `polynomial.py` and, if `exact_forward` is off, its forward pass.

    Its weights are those of softmax attention, so it can adapt a run trained with softmax: the gradients of LoRA on the
    projections follow from dQ, dK and dV by the chain rule (Hu et al. 2024, "Computational Limits of Low-Rank
    Adaptation (LoRA) for Transformer-Based Models"). Time and memory grow with C(k+g, g)·k², which is small only for
    narrow heads, such as k = 8 or 16 at g = 2. Dropout drops whole values, the same for all queries of a head.

    Attributes:
        degree: g of the polynomial, at least 1. An even degree has positive weights for any logits. With an odd one and
            large logits, the weights of a query can sum to almost nothing, and its gradient is then far too large.
        exact_forward: True: the output is that of softmax attention, in time O(n²). False: that of the features.
        norm: keeps the logits small. "", "clip" and "rms" (with `bound`) as in softmax attention. "centre" subtracts
            the mean key from all keys, which changes nothing in softmax attention.
        block: queries that the exact forward handles at once, and positions whose features are held at once; 0: all.
    """

    degree: int = 2
    exact_forward: bool = True
    block: int = 256

    keeps_texts_apart = False
    positive = (*softmax.Attention.positive, "degree")
    choices = {"norm": ("", "clip", "rms", "centre")}

    def check(self):
        super().check()
        found = polynomial.count(self.head_size, self.degree)
        if found * (self.head_size + 1) ** 2 > LARGEST:
            raise self.refuse(
                f"degree={self.degree} makes {found:,} features of heads of width {self.head_size}, which is too many; "
                "lower the degree or use narrower heads"
            )

    def logit_factors(
        self, q: Float[Array, "b h t k"], keys: Float[Array, "b g s k"], *, real: Bool[Array, "#b s"]
    ) -> tuple[Float[Array, "b h t k"], Float[Array, "b h s k"]]:
        """Queries and keys whose products are the logits, one head of keys per head of queries; `real`: no padding."""
        keys = jnp.repeat(keys, self.heads // self.key_heads, axis=1)
        if self.norm == "centre":
            real = real[:, None, :, None]
            mean = jnp.where(real, keys, 0.0).sum(2, keepdims=True) / jnp.maximum(real.sum(2, keepdims=True), 1)
            keys = keys - jax.lax.stop_gradient(mean)  # its gradient is zero, since the rows of dS sum to zero
        return q, keys

    def mix(self, q, cache, *, mask, dtype, key=None):
        if mask is not None and mask.causal and self.norm == "centre" and not self.exact_forward:
            raise self.refuse("norm='centre' looks ahead: a causal mask needs exact_forward=True")
        s = cache["key"].shape[2]
        real = jnp.ones((1, s), bool) if mask is None else mask.real(s)
        q, keys = self.logit_factors(q, cache["key"], real=real)
        values = jnp.repeat(cache["value"], self.heads // self.key_heads, axis=1)
        values = core.drop_values(values, key, rate=self.dropout)
        settings = dict(degree=self.degree, exact_forward=self.exact_forward, block=self.block or max(q.shape[2], s))
        return polynomial.attention(q, keys, v=values, mask=mask, dtype=dtype, **settings)

    def recall(self, q, cache, *, index):
        if self.exact_forward:
            return super().recall(q, cache, index=index)
        keys, values = (jnp.repeat(cache[name], self.heads // self.key_heads, axis=1) for name in ("key", "value"))
        weights = polynomial.truncated_exp((q * keys).sum(-1, keepdims=True), self.degree)
        weights = jnp.where((jnp.arange(keys.shape[2]) <= index)[None, None, :, None], weights, 0.0)
        return polynomial.ratio((weights * values).sum(2, keepdims=True), weights.sum(2, keepdims=True))
