"""Dropout that needs a quarter of the random words."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp


def keep_mask(key, rate, *, shape):
    """A boolean mask, True with probability ``1 - rate`` rounded to a multiple of 1/256.

    Each random word serves four elements, one byte each: on a CPU, a word per element (as in `jax.random.bernoulli`)
    takes longer than the attention it is applied to.
    """
    size = math.prod(shape)
    words = jax.random.bits(key, (-(-size // 4),), jnp.uint32)
    octets = jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(-1)[:size]
    return (octets < kept_of_256(rate)).reshape(shape)


def kept_of_256(rate):
    """The number of elements kept out of 256; at least one, so that the rescaling is finite."""
    return max(1, round(256 * (1 - rate)))


class Dropout(nn.Module):
    """Zeroes elements with probability `rate`, in multiples of 1/256, and divides the rest by the kept share."""

    rate: float = 0.0

    @nn.compact
    def __call__(self, x, *, train=False):
        kept = kept_of_256(self.rate)
        if not train or kept == 256:
            return x
        return jnp.where(keep_mask(self.make_rng("dropout"), self.rate, shape=x.shape), x * (256 / kept), 0)
