"""Images as tokens: patches, or the pixels of a small CNN's feature map; with a class token and positions."""

import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.layers import linear, norm, position


def patches(images: Float[Array, "b h w c"], size: int) -> Float[Array, "b n _p"]:
    """Cuts non-overlapping squares of `size` pixels, row by row: `[b h w c] -> [b (h/size)(w/size) size·size·c]`.

    The order in a patch is that of a convolution's kernel `[size size c d]` reshaped to `[size·size·c d]`.
    """
    b, h, w, c = images.shape
    cut = images.reshape(b, h // size, size, w // size, size, c).swapaxes(2, 3)
    return cut.reshape(b, (h // size) * (w // size), size * size * c)


def windows(images: Float[Array, "b h w c"], *, size: int = 3, stride: int = 2) -> Float[Array, "b _h _w _p"]:
    """Windows of odd `size`, every `stride` pixels: `[b h w c] -> [b ⌈h/stride⌉ ⌈w/stride⌉ size·size·c]`.

    The first window is centred on the first pixel, with zeros outside the image, as in PyTorch's
    ``Conv2d(padding=size // 2)``. A convolution is one product with these, in the order of `patches`.
    """
    return jnp.concatenate(_shifted(images, size, stride), axis=-1)


def _shifted(images, size, stride):
    """The pixels of `windows`, one place in the window after another: size² arrays `[b ⌈h/stride⌉ ⌈w/stride⌉ c]`."""
    border = (size // 2, size // 2)
    padded = jnp.pad(images, ((0, 0), border, border, (0, 0)))
    rows, columns = (-(-length // stride) for length in images.shape[1:3])
    return [
        padded[:, i : i + stride * (rows - 1) + 1 : stride, j : j + stride * (columns - 1) + 1 : stride]
        for i in range(size)
        for j in range(size)
    ]


class ConvStem(nn.Module):
    """3 × 3 convolutions of stride 2, each with a norm over the channels and ReLU.

    Source: Xiao et al. 2021, "Early Convolutions Help Transformers See Better", section 4, with norms over the batch.
    """

    widths: tuple
    epsilon: float = 1e-6
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b _h _w _c"]:
        for i, width in enumerate(self.widths):
            x = linear.Linear(width, use_bias=False, dtype=self.dtype, name=f"conv_{i}")(windows(x))
            x = nn.relu(norm.make("layer", epsilon=self.epsilon, name=f"norm_{i}")(x))
        return x


class PoolStem(nn.Module):
    """3 × 3 convolutions of stride 1, each with ReLU and the maximum over 3 × 3 pixels, every second one.

    Source: Hassani et al. 2021, "Escaping the Big Data Paradigm with Compact Transformers", section 3.
    """

    widths: tuple
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b _h _w _c"]:
        for i, width in enumerate(self.widths):
            x = linear.Linear(width, use_bias=False, dtype=self.dtype, name=f"conv_{i}")(windows(x, stride=1))
            x = functools.reduce(jnp.maximum, _shifted(nn.relu(x), 3, 2))  # zeros outside the image raise no maximum
        return x


class PatchEmbed(nn.Module):
    """``[class token; patches W + b] + positions`` (Dosovitskiy et al. 2021, equation 1).

    Attributes:
        width: d.
        size: side of a patch, in pixels of the image or of the stem's feature map.
        stem_widths: widths of a `ConvStem` before the patches; empty for none.
        pooled: whether the stem is a `PoolStem`, whose pixels are the tokens as they are.
        token: whether a learned vector, the class token, precedes the patches.
        distilled: whether a second one, the distillation token, follows it (Touvron et al. 2021, section 4).
        positions: "learned", or "sinusoidal" in two dimensions (`position.sinusoidal_2d`; zeros for the tokens).
        epsilon: ε of the stem's norms.
    """

    width: int
    size: int
    stem_widths: tuple = ()
    pooled: bool = False
    token: bool = True
    distilled: bool = False
    positions: str = "learned"
    epsilon: float = 1e-6
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b t d"]:
        if self.pooled:
            x = PoolStem(self.stem_widths, dtype=self.dtype, name="stem")(x)
        elif self.stem_widths:
            x = ConvStem(self.stem_widths, epsilon=self.epsilon, dtype=self.dtype, name="stem")(x)
        grid = [length // self.size for length in x.shape[1:3]]
        x = patches(x, self.size)
        if not self.pooled:
            kernel_init = nn.initializers.lecun_normal()  # pixels of variance 1 give tokens of variance 1
            x = linear.Linear(self.width, kernel_init=kernel_init, dtype=self.dtype, name="patch")(x)
        tokens = [name for name, used in (("class", self.token), ("distillation", self.distilled)) if used]
        for name in reversed(tokens):
            token = linear.dense(self.param(f"{name}_token", nn.initializers.zeros_init(), (self.width,)))
            x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, self.width)), x], axis=1)
        if self.positions == "learned":
            shape = (x.shape[1], self.width)
            table = linear.dense(linear.weight(self, "position", init=nn.initializers.normal(0.02), shape=shape))
        else:
            table = jnp.pad(position.sinusoidal_2d(*grid, width=self.width), ((len(tokens), 0), (0, 0)))
        return x + table[None]
