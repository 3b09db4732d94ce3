"""The position-wise feed-forward network."""

import collections.abc

import flax.linen as nn

from lwt.layers import linear


class MLP(nn.Module):
    """``act(x W1 + b1) W2 + b2`` ("Implementing Transformers", equation 5).

    Attributes:
        hidden: width f between the two products.
        activation: ReLU in the paper.
        dtype: operands of the products.
    """

    hidden: int
    activation: collections.abc.Callable = nn.relu
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x):
        hidden = self.activation(linear.Linear(self.hidden, dtype=self.dtype, name="fc1")(x))
        return linear.Linear(x.shape[-1], dtype=self.dtype, name="fc2")(hidden)
