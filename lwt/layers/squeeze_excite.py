"""Squeeze and excitation: channels weighted by what all of the image has in them."""

import flax.linen as nn
from jaxtyping import Array, Float

from lwt.layers import linear


class SqueezeExcite(nn.Module):
    """``x · sigmoid(ReLU(mean(x) W1 + b1) W2 + b2)``, the mean over the places (Hu et al. 2018, equations 2 to 4).

    Attributes:
        reduction: c/r channels between the two products.
        dtype: operands of the products.
    """

    reduction: int = 4
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
        channels = x.shape[-1]
        squeezed = linear.Linear(max(1, channels // self.reduction), dtype=self.dtype, name="fc1")(x.mean((1, 2)))
        weights = nn.sigmoid(linear.Linear(channels, dtype=self.dtype, name="fc2")(nn.relu(squeezed)))
        return x * weights[:, None, None]
