"""A plain convolutional network as a baseline: pairs of 3 × 3 convolutions, the second of stride 2.

Based on VGG (Simonyan and Zisserman 2015), with a norm after every convolution and the mean over all pixels before the
head. The defaults have 587,832 weights. Known deviations: strides instead of pooling; norms over groups of eight
channels of one image (Wu and He 2018), since a batch norm would need running means.
"""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.layers import linear, patch, validate

GROUP = 8  # channels normalized together


class Conv(nn.Module):
    """``ReLU(Norm(conv(x)))`` with a zero-padded 3 × 3 convolution; its kernel is `[9·c width]`.

    Attributes:
        width: channels of the output.
        stride: input pixels per output pixel.
        dtype: operands of the product.
    """

    width: int
    stride: int = 1
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b _h _w _d"]:
        kernel_init = nn.initializers.he_normal()
        windows = patch.windows(x, stride=self.stride)
        y = linear.Linear(self.width, use_bias=False, kernel_init=kernel_init, dtype=self.dtype, name="conv")(windows)
        return nn.relu(nn.GroupNorm(num_groups=None, group_size=GROUP, epsilon=1e-5, name="norm")(y))


class CNN(nn.Module):
    """Classifies images. A batch holds `image`, normalized float `[b h w c]` with h = w = `image_size`.

    Attributes:
        outputs: classes.
        image_size: side of an image in pixels; channels: channels of an image.
        widths: channels of the stages; each halves the image. The first has only its convolution of stride 2.
        dtype: operands of the products ("float32" or "bfloat16").
    """

    outputs: int = 8
    image_size: int = 128
    channels: int = 1
    widths: tuple = (16, 32, 64, 128, 128)
    dtype: str = "float32"

    @nn.nowrap
    def example(self):
        """The smallest batch, for initialization."""
        return {"image": jnp.zeros((1, self.image_size, self.image_size, self.channels))}

    def setup(self):
        validate.require_positive(self, "outputs", "image_size", "channels")
        if not self.widths or any(width < GROUP or width % GROUP for width in self.widths):
            raise errors.ConfigError(f"model.widths={self.widths} should be multiples of {GROUP}, one per stage")
        first, *rest = self.widths
        layers = [Conv(first, 2, self.dtype)]
        for width in rest:
            layers += [Conv(width, 1, self.dtype), Conv(width, 2, self.dtype)]
        self.layer = layers
        self.head = linear.Linear(self.outputs, dtype=self.dtype)

    def features(self, batch, *, train=False):
        """The head's input `[b d]`: the last stage's means over all pixels."""
        del train  # there is no dropout
        x = batch["image"]
        for layer in self.layer:
            x = layer(x)
        return x.mean((1, 2))

    def __call__(self, batch, *, train=False):
        """Logits `[b outputs]`."""
        return self.head(self.features(batch, train=train))
