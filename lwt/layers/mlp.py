"""The position-wise feed-forward network."""

import collections.abc
import functools

import flax.linen as nn
import jax

from lwt.layers import dropout, linear

ACTIVATIONS = {
    "relu": nn.relu,
    "silu": nn.silu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
}


class MLP(nn.Module):
    """``Dropout(act(x W1 + b1)) W2 + b2`` ("Implementing Transformers", equation 5).

    Attributes:
        hidden: width f between the two products.
        activation: ReLU in the paper.
        dropout: rate on what the second product reads; none in the paper.
        dtype: operands of the products.
    """

    hidden: int
    activation: collections.abc.Callable = nn.relu
    dropout: float = 0.0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x, *, train=False):
        hidden = self.activation(linear.Linear(self.hidden, dtype=self.dtype, name="fc1")(x))
        hidden = dropout.Dropout(self.dropout)(hidden, train=train)
        return linear.Linear(x.shape[-1], dtype=self.dtype, name="fc2")(hidden)
