"""Scaled dot-product attention: multi-head, multi-query and grouped-query."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.attention.parts import base


class Attention(base.Base):
    """``softmax(Q Kᵀ / √k) V`` in h heads (Vaswani et al. 2017, section 3.2; "Implementing Transformers", equation 2).

    Attributes:
        head_width: k; 0: d/h. The folded form of K/V projection is this with k < d/h.
        kv_heads: heads of the keys and values, each shared by h/kv_heads heads of queries; 0: h. One is multi-query
            attention (Shazeer 2019), more are grouped-query attention (Ainslie et al. 2023). The cache shrinks in
            proportion.
        block: queries handled at once, so that no array `[t s]` is formed (`blockwise.py`); 0: all, unless fewer are
            faster, the weights would be more than `base.WHOLE` numbers, or a GPU has a kernel (`fused.py`).
        norm: keeps every logit within ±bound. "": no norm. "clip": queries (scaled) and keys longer than √bound are
            shortened to it. "rms": all get that length (after Henry et al. 2020, "Query-Key Normalization for
            Transformers", section 2, with a fixed factor).
        bound: largest absolute logit that "clip" and "rms" allow.
    """

    head_width: int = 0
    kv_heads: int = 0
    block: int = 0
    norm: str = ""
    bound: float = 1.0

    heads_removable = True
    choices = {"norm": ("", "clip", "rms")}

    @property
    def head_size(self):
        """The width k of a head."""
        return self.head_width or self.width // self.heads

    @property
    def key_heads(self):
        """Heads of the keys and values."""
        return self.kv_heads or self.heads

    def check(self):
        super().check()
        if self.heads % self.key_heads:
            raise self.refuse(f"kv_heads={self.kv_heads} must divide heads={self.heads}")
        if not self.bound > 0:
            raise self.refuse(f"bound={self.bound} must be positive")

    def queries(self, x: Float[Array, "b t d"]):
        return self._bounded(super().queries(x))

    def project(self, context: Float[Array, "b s d"]):
        cache = super().project(context)
        return cache | {"key": self._bounded(cache["key"])}

    def _bounded(self, x):
        """Vectors of length √bound ("rms"), or at most that ("clip")."""
        if self.norm not in ("clip", "rms"):  # "centre" of `approximate.py` does not bound
            return x
        square = jnp.square(x).sum(-1, keepdims=True)
        floor = self.bound if self.norm == "clip" else 1e-12
        return x * jnp.sqrt(self.bound / jnp.maximum(square, floor))

    def weigh(self, q, cache, *, allowed, dtype, key=None):
        """As in `base.Base`; queries of heads that share keys count as further positions of one head."""
        (b, h, t, k), shared = q.shape, self.heads // self.key_heads
        if shared == 1:
            return super().weigh(q, cache, allowed=allowed, dtype=dtype, key=key)
        if allowed is not None and allowed.shape[2] > 1:
            allowed = jnp.tile(allowed, (1, 1, shared, 1))
        q = q.reshape(b, self.key_heads, shared * t, k)
        return super().weigh(q, cache, allowed=allowed, dtype=dtype, key=key).reshape(b, h, t, -1)
