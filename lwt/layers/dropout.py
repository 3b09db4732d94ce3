"""Dropout that costs a quarter of the random numbers."""

import flax.linen as nn
import jax
import jax.numpy as jnp


def keep_mask(key, rate, shape):
    """A boolean mask, True with probability ``1 - rate`` rounded to a multiple of 1/256.

    Four bytes of every random word are used, one an element: on a CPU, generating a word an element (as
    `jax.random.bernoulli` does) takes longer than the attention that it is applied to.
    """
    size = 1
    for length in shape:
        size *= length
    words = jax.random.bits(key, (-(-size // 4),), jnp.uint32)
    octets = jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(-1)[:size]
    return (octets < kept_of_256(rate)).reshape(shape)


def kept_of_256(rate):
    """How many of 256 elements are kept; at least one, so that the rescaling is finite."""
    return max(1, round(256 * (1 - rate)))


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` and scales the rest by the inverse of what is kept.

    Attributes:
        rate: in [0, 1); realised as the nearest multiple of 1/256 (0.1 is 26/256).
    """

    rate: float = 0.0

    @nn.compact
    def __call__(self, x, *, train=False):
        kept = kept_of_256(self.rate)
        if not train or kept == 256:
            return x
        return jnp.where(keep_mask(self.make_rng("dropout"), self.rate, x.shape), x * (256 / kept), 0)
