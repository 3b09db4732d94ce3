"""Norms over the width of each position."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.layers import linear

KINDS = ("layer", "rms")


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x²) + ε) · scale``, without centring or bias (Zhang and Sennrich 2019)."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        scale = self.param("scale", nn.initializers.ones_init(), (x.shape[-1],))
        rows = x.astype(jnp.float32).reshape(-1, x.shape[-1])
        return _rms_norm(rows, scale, self.epsilon).reshape(x.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _rms_norm(x, scale, epsilon):
    return x * _inverse_root(x, epsilon) * scale[None]


def _inverse_root(x, epsilon):
    """The inverse root mean squares `[n 1]` of rows `[n d]`."""
    return jax.lax.rsqrt(_means(jnp.square(x)) + epsilon)


def _rms_norm_fwd(x, scale, epsilon):
    return _rms_norm(x, scale, epsilon), (x, scale)


def _rms_norm_bwd(epsilon, saved, dy):
    x, scale = saved
    inverse = _inverse_root(x, epsilon)
    normed = x * inverse
    along = dy * normed
    slope = jnp.dot(along, (scale / x.shape[1])[:, None], precision="highest")
    return inverse * (dy * scale[None] - normed * slope), linear.column_sums(along)


_rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


class LayerNorm(nn.Module):
    """``(x - mean(x)) / sqrt(var(x) + ε) · scale + bias`` (Ba et al. 2016), with the names of linen's `LayerNorm`.

    On a CPU, linen's writes the scale out for every position; here sums are products (docs/design/speed.md).
    """

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        scale = self.param("scale", nn.initializers.ones_init(), (x.shape[-1],))
        bias = self.param("bias", nn.initializers.zeros_init(), (x.shape[-1],))
        rows = x.astype(jnp.float32).reshape(-1, x.shape[-1])
        return _layer_norm(rows, scale, bias, self.epsilon).reshape(x.shape)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _layer_norm(x, scale, bias, epsilon):
    normed, _ = _normalise(x, epsilon)
    return normed * scale[None] + bias[None]


def _normalise(x, epsilon):
    """Rows `[n d]` of mean 0 and variance 1, and their inverse deviations `[n 1]`."""
    centred = x - _means(x)
    inverse = jax.lax.rsqrt(_means(jnp.square(centred)) + epsilon)
    return centred * inverse, inverse


def _means(x):
    """The means `[n 1]` of rows `[n d]`."""
    return jnp.dot(x, jnp.full((x.shape[1], 1), 1 / x.shape[1], x.dtype), precision="highest")


def _layer_norm_fwd(x, scale, bias, epsilon):
    return _layer_norm(x, scale, bias, epsilon), (x, scale)


def _layer_norm_bwd(epsilon, saved, dy):
    """The gradients of scale and bias are sums over the rows, as in `linear.add_bias`."""
    x, scale = saved
    normed, inverse = _normalise(x, epsilon)
    along, share = dy * normed, (scale / x.shape[1])[:, None]
    mean, slope = (jnp.dot(rows, share, precision="highest") for rows in (dy, along))
    dx = inverse * (dy * scale[None] - mean - normed * slope)
    return dx, linear.column_sums(along), linear.column_sums(dy)


_layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


def make(kind, *, epsilon=1e-5, name=None):
    """Makes a norm module, "layer" or "rms"; raises ConfigError for another kind."""
    if kind not in KINDS:
        raise errors.ConfigError(f"model.norm={kind!r}: {errors.suggest(kind, KINDS)}")
    return LayerNorm(epsilon=epsilon, name=name) if kind == "layer" else RMSNorm(epsilon=epsilon, name=name)
