"""The position-wise feed-forward network."""

import collections.abc
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from lwt.layers import dropout, linear


@jax.custom_vjp
def gelu(x):
    """``x Φ(x)``, the exact GELU (Hendrycks and Gimpel 2016), recomputed in the backward pass.

    `jax.nn.gelu` uses ``erfc``, which XLA's CPU backend computes by two formulas at once, in 1.4 times the time. The
    barrier ties the backward pass to its gradient. Otherwise XLA would compute Φ and its density in the forward pass,
    and store both.
    """
    return x * _normal_cdf(x)


def _normal_cdf(x):
    return 0.5 * (1 + jax.lax.erf(x * 0.5**0.5))


def _gelu_bwd(x, dy):
    x, dy = jax.lax.optimization_barrier((x, dy))
    density = jnp.exp(-0.5 * jnp.square(x)) * (0.5 / jnp.pi) ** 0.5
    return (dy * (_normal_cdf(x) + x * density),)


gelu.defvjp(lambda x: (gelu(x), x), _gelu_bwd)

ACTIVATIONS = {
    "relu": nn.relu,
    "silu": nn.silu,
    "gelu": gelu,
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
}


class MLP(nn.Module):
    """``Dropout(act(x W1 + b1)) W2 + b2``, f = `hidden` ("Implementing Transformers", equation 5, without dropout)."""

    hidden: int
    activation: collections.abc.Callable = nn.relu
    dropout: float = 0.0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x, *, train=False):
        hidden = self.activation(linear.Linear(self.hidden, dtype=self.dtype, name="fc1")(x))
        hidden = dropout.Dropout(self.dropout)(hidden, train=train)
        return linear.Linear(x.shape[-1], dtype=self.dtype, name="fc2")(hidden)
