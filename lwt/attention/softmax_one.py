"""Softmax attention whose weights may sum to less than one, so that a head can attend to nothing."""

import jax.numpy as jnp

from lwt.attention import softmax
from lwt.attention.parts import masks


class Attention(softmax.Attention):
    """``exp(l_i) / (1 + Σ_j exp(l_j))`` in place of the softmax of the logits l; all else is as in softmax attention.

    With softmax, a head that has nothing to say learns large logits for tokens that say little, and these outliers make
    activations hard to round. This is softmax attention with one more key, whose logit and value are 0; it has the
    weights of softmax attention. Source: Miller 2023, "Attention is off by one"; Hu et al. 2024, "Outlier-efficient
    Hopfield layers for large transformer-based models", arXiv 2404.03828, where it is called Softmax_1.
    """

    def mix(self, q, cache, *, mask, dtype, key=None):
        mask = masks.Mask(nothing=True) if mask is None else mask.replace(nothing=True)
        return super().mix(q, _with_nothing(cache), mask=mask, dtype=dtype, key=key)

    def recall(self, q, cache, *, index):
        last = cache["key"].shape[2]
        places = jnp.arange(last + 1)
        seen = ((places <= index) | (places == last))[None, None, None, :]
        return self.weigh(q, _with_nothing(cache), allowed=seen, dtype="float32")


def _with_nothing(cache):
    """The keys and values `[b h s k]` with a last one of zeros."""
    return {name: jnp.pad(x, ((0, 0), (0, 0), (0, 1), (0, 0))) for name, x in cache.items()}
