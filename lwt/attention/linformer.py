"""Linformer: keys and values are mixed along the sequence into r rows, for any length."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.attention.parts import base
from lwt.layers import linear


class Rows(nn.Module):
    """``Σ_s kernel[s] x[s]``: s positions become r rows, in the same way in every head.

    A sequence shorter than `max_length` uses the first rows of the kernel, which starts as in the authors' code: Xavier
    uniform over √2, with variance 1/(max_length + r).
    """

    max_length: int
    rank: int
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h s k"]) -> Float[Array, "b h r k"]:
        initial = nn.initializers.variance_scaling(0.5, "fan_avg", "uniform")
        kernel = linear.dense(linear.weight(self, "kernel", init=initial, shape=(self.max_length, self.rank)))
        mixed = linear.linear(x.swapaxes(2, 3), kernel[: x.shape[2]], dtype=self.dtype)
        return mixed.swapaxes(2, 3)


class Attention(base.Base):
    """``softmax(Q (EᵀK)ᵀ / √k) FᵀV``: the scores are `[t r]` (Wang et al. 2020, section 4).

    Padding is set to zero before mixing. Each of the r rows mixes all positions, so there is no causal form, and the
    texts of a row cannot be kept apart. With n of max_length positions in use, the initial EᵀK and FᵀV are
    √(n/max_length) of their full size, so set max_length to the longest row, and no more.

    Attributes:
        max_length: the longest sequence of keys.
        rank: r.
        shared: E = F, the paper's "key-value sharing". The heads share both in any case.
    """

    max_length: int = 512
    rank: int = 64
    shared: bool = True

    has_causal = False
    keeps_texts_apart = False
    positive = (*base.Base.positive, "max_length", "rank")

    def setup(self):
        super().setup()
        for name in ("rows",) if self.shared else ("key_rows", "value_rows"):
            setattr(self, name, Rows(self.max_length, self.rank, dtype=self.dtype))

    def mix(self, q, cache, *, mask, dtype, key=None):
        """As in `base.Base`; raises ConfigError for more than max_length keys."""
        s = cache["key"].shape[2]
        if s > self.max_length:
            raise self.refuse(f"max_length={self.max_length} is less than {s}, the length of these rows")
        if mask is not None:
            real = mask.real(s)[:, None, :, None]
            cache = {name: jnp.where(real, x, 0.0) for name, x in cache.items()}
        rows = {name: self.rows if self.shared else getattr(self, f"{name}_rows") for name in cache}
        cache = {name: rows[name](x) for name, x in cache.items()}
        return self.weigh(q, cache, allowed=None, dtype=dtype, key=key)
