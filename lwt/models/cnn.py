"""A plain convolutional network as a baseline: pairs of 3 × 3 convolutions, the second of stride 2.

Based on VGG (Simonyan and Zisserman 2015), with a norm after every convolution and the mean over all pixels before the
head. The defaults have 587,832 weights. Known deviations: strides instead of pooling; norms over groups of eight
channels of one image (Wu and He 2018), since a batch norm would need running means.

With `separable`, each convolution but the first is a depthwise and a point-wise one, as in MobileNets (Howard et al.
2017), with about a ninth of the weights.
"""

import flax.linen as nn
from jaxtyping import Array, Float

from lwt.layers import image_conv, linear, patch, validate

GROUP = 8  # channels normalized together


class Conv(nn.Module):
    """``ReLU(Norm(conv(x)))`` with a zero-padded 3 × 3 convolution to `width` channels.

    Its kernel is `[9·c width]`; a `separable` one has `[3 3 c]` and `[c width]`.
    """

    width: int
    stride: int = 1
    separable: bool = False
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b _h _w _d"]:
        if self.separable:
            y = image_conv.Separable(self.width, stride=self.stride, dtype=self.dtype, name="conv")(x)
        else:
            fields = dict(use_bias=False, kernel_init=nn.initializers.he_normal(), dtype=self.dtype, name="conv")
            y = linear.Linear(self.width, **fields)(patch.windows(x, stride=self.stride))
        return nn.relu(nn.GroupNorm(num_groups=None, group_size=GROUP, epsilon=1e-5, name="norm")(y))


class CNN(nn.Module):
    """Classifies images. A batch holds `image`, normalized float `[b h w c]` with h = w = `image_size`.

    Attributes:
        outputs: classes.
        image_size: side of an image in pixels; channels: channels of an image.
        widths: channels of the stages; each halves the image. The first has only its convolution of stride 2.
        separable: whether the convolutions but the first are depthwise separable.
    """

    outputs: int = 8
    image_size: int = 128
    channels: int = 1
    widths: tuple[int, ...] = (16, 32, 64, 128, 128)
    separable: bool = False
    dtype: str = "float32"

    @nn.nowrap
    def example(self):
        """A batch of one record, to initialize the model."""
        return validate.image_example(self)

    def setup(self):
        validate.require_positive(self, "outputs", "image_size", "channels")
        if not self.widths or any(width < GROUP or width % GROUP for width in self.widths):
            raise validate.refuse(self, "widths", must=f"multiples of {GROUP}, one per stage")
        strides = [(self.widths[0], 2), *((width, stride) for width in self.widths[1:] for stride in (1, 2))]
        self.layer = [
            Conv(width, stride, separable=self.separable and i > 0, dtype=self.dtype)
            for i, (width, stride) in enumerate(strides)
        ]
        self.head = linear.Linear(self.outputs, dtype=self.dtype)

    def features(self, batch, *, train=False):
        """The head's input `[b d]`: the last stage's means over all pixels."""
        del train  # there is no dropout
        x = batch["image"]
        validate.require_images(self, x)
        for layer in self.layer:
            x = layer(x)
        return x.mean((1, 2))

    def __call__(self, batch, *, train=False):
        """Logits `[b outputs]`."""
        return self.head(self.features(batch, train=train))
