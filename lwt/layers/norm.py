"""Normalisation over the width of a position."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors

KINDS = ("layer", "rms")


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x²) + ε) · scale``: no mean is taken away, and there is no bias (Zhang and Sennrich 2019).

    Attributes:
        epsilon: ε.
    """

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        scale = self.param("scale", nn.initializers.ones_init(), (x.shape[-1],))
        x = x.astype(jnp.float32)
        inverse = jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + self.epsilon)
        return x * inverse * jnp.expand_dims(scale, range(x.ndim - 1))


def make(kind, *, epsilon=1e-5, name=None):
    """A norm module: ``"layer"`` (scale and bias) or ``"rms"`` (scale).

    Raises:
        lwt.errors.ConfigError: another kind.
    """
    if kind not in KINDS:
        raise errors.ConfigError(f"model.norm={kind!r}: {errors.suggest(kind, KINDS)}")
    return nn.LayerNorm(epsilon=epsilon, name=name) if kind == "layer" else RMSNorm(epsilon=epsilon, name=name)
