"""LH-ViT, a lightweight hybrid of convolutions and attention for micro-Doppler maps.

Source: Huan et al. 2023, "A lightweight hybrid vision transformer network for radar-based human activity recognition",
Scientific Reports 13, 17996. A feature pyramid of RES-SE blocks extracts features of several scales; Radar-ViT and
RES-SE blocks, cross-stacked, enhance them. The defaults have 231,866 weights.

The paper prints no table of its sizes, so widths and depths are our choice. So are these:

- The pyramid is that of Lin et al. (2017), which adds the coarser map, upsampled by two, to the finer one. The
  enhancement starts at the finest map, and after every RES-SE block of stride 2 adds the pyramid's next one.
- Radar-ViT's fold and unfold are MobileViT's (Mehta and Rastegari 2022, section 3.1). It learns a position vector per
  row and per column of its map, since the Doppler of a movement tells more than its shape.
- Norms are over groups of eight channels of one map (Wu and He 2018), not over the batch: a batch norm keeps running
  means, while a model of lwt is a pure function of its weights.
"""

import functools

import flax.linen as nn
from jaxtyping import Array, Float

from lwt.attention import softmax
from lwt.layers import image_conv, linear, mlp, norm, patch, validate
from lwt.models import vit

GROUP = 8  # channels normalized together
HALVINGS = 4  # the stem and three levels halve the map: the coarsest level has a sixteenth of its side


def unfold(x: Float[Array, "b h w c"], size: int) -> Float[Array, "b p n c"]:
    """Cuts non-overlapping patches: `[b h w c] -> [b p n c]`, p = size² pixels per patch, n patches, row by row."""
    b, h, w, c = x.shape
    cut = x.reshape(b, h // size, size, w // size, size, c).transpose(0, 2, 4, 1, 3, 5)
    return cut.reshape(b, size * size, (h // size) * (w // size), c)


def fold(x: Float[Array, "b p n c"], shape: tuple, *, size: int) -> Float[Array, "b h w c"]:
    """Inverts `unfold`, to maps of ``shape = (h, w)``."""
    (h, w), c = shape, x.shape[-1]
    cut = x.reshape(-1, size, size, h // size, w // size, c).transpose(0, 3, 1, 4, 2, 5)
    return cut.reshape(-1, h, w, c)


class ResSE(nn.Module):
    """RES-SE: ``ReLU(shortcut(x) + SE(f(x)))``; f is two depthwise separable convolutions with norms, ReLU between.

    The shortcut is x itself, or, if the shape changes, average pooling and a point-wise convolution with a norm. The
    `stride` is that of the first convolution.
    """

    width: int
    stride: int = 1
    reduction: int = 4
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"]) -> Float[Array, "b _h _w _d"]:
        convolve = functools.partial(image_conv.Separable, self.width, dtype=self.dtype)
        y = nn.relu(_norm("norm_0")(convolve(stride=self.stride, name="separable_0")(x)))
        y = _norm("norm_1")(convolve(name="separable_1")(y))
        y = image_conv.SqueezeExcite(self.reduction, dtype=self.dtype, name="se")(y)
        if self.stride > 1:
            x = nn.avg_pool(x, window_shape=(self.stride, self.stride), strides=(self.stride, self.stride))
        if x.shape[-1] != self.width:
            x = linear.Linear(self.width, use_bias=False, dtype=self.dtype, name="shortcut")(x)
            x = _norm("shortcut_norm")(x)
        return nn.relu(x + y)


class RadarViT(nn.Module):
    """Attention over the unfolded patches of a map: pixel k of a patch attends to pixel k of all patches.

    ``x + leave(fold(blocks(unfold(enter(x) + position))))``, where `enter` and `leave` are point-wise convolutions;
    `leave` replaces the class token. With p pixels per patch, the scores cost 1/p of those among all pixels. The blocks
    are ViT's; `patch`, the side of a patch, must divide the map's.
    """

    width: int
    heads: int
    hidden: int
    layers: int
    patch: int
    dropout: float = 0.0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b h w c"], *, train: bool = False) -> Float[Array, "b h w c"]:
        b, h, w, channels = x.shape
        y = linear.Linear(self.width, dtype=self.dtype, name="enter")(x)
        row, column = (
            linear.weight(self, f"position_{name}", init=nn.initializers.normal(0.02), shape=(length, self.width))
            for name, length in (("row", h), ("column", w))
        )
        y = unfold(y + linear.dense(row)[None, :, None] + linear.dense(column)[None, None], self.patch)
        places, patches = y.shape[1:3]
        y = y.reshape(b * places, patches, self.width)
        for i in range(self.layers):
            y = vit.Block(
                functools.partial(softmax.Attention, self.width, self.heads, dtype=self.dtype),
                functools.partial(mlp.MLP, self.hidden, mlp.ACTIVATIONS["silu"], dtype=self.dtype),
                dropout=self.dropout,
                name=f"block_{i}",
            )(y, train=train)
        y = norm.LayerNorm(name="norm")(y).reshape(b, places, patches, self.width)
        return x + linear.Linear(channels, dtype=self.dtype, name="leave")(fold(y, (h, w), size=self.patch))


class LHViT(nn.Module):
    """Classifies maps. A batch holds `image`, normalized float `[b h w c]` with h = w = `image_size`.

    Attributes:
        outputs: classes.
        image_size: side of a map, a multiple of 16·patch; channels: channels of a map.
        stem: channels of the first convolution, which halves the map.
        widths: channels of the pyramid's three levels, each half the side of the previous one.
        width: channels after the pyramid, and d of Radar-ViT.
        heads, hidden, layers, patch, dropout: of each of the two Radar-ViT.
        reduction: see `image_conv.SqueezeExcite`.
        summary: channels of the last point-wise convolution, whose means over the map the head reads.
    """

    outputs: int = 8
    image_size: int = 128
    channels: int = 1
    stem: int = 16
    widths: tuple[int, ...] = (24, 48, 96)
    width: int = 64
    heads: int = 4
    hidden: int = 128
    layers: int = 2
    patch: int = 2
    reduction: int = 4
    summary: int = 128
    dropout: float = 0.0
    dtype: str = "float32"

    @nn.nowrap
    def example(self):
        """A batch of one record, to initialize the model."""
        return validate.image_example(self)

    def setup(self):
        self._check()
        point = functools.partial(linear.Linear, dtype=self.dtype)
        block = functools.partial(ResSE, reduction=self.reduction, dtype=self.dtype)
        self.stem_conv, self.stem_norm = point(self.stem, use_bias=False), _norm()
        self.extract = [block(width, stride=2) for width in self.widths]
        self.lateral = [point(self.width) for _ in self.widths]
        self.enhance = [block(self.width, stride=2) for _ in self.widths[1:]]
        keys = ("width", "heads", "hidden", "layers", "patch", "dropout", "dtype")
        self.radar_vit = [RadarViT(**{key: getattr(self, key) for key in keys}) for _ in self.widths[1:]]
        self.summarise, self.summary_norm = point(self.summary, use_bias=False), _norm()
        self.head = point(self.outputs)

    def _check(self):
        sizes = ("outputs", "channels", "image_size", "heads", "hidden", "layers", "patch", "reduction")
        validate.require_positive(self, *sizes)
        validate.require_rates(self, "dropout")
        if len(self.widths) != 3:
            raise validate.refuse(self, "widths", must="three numbers, one per level of the pyramid")
        widths = {"stem": (self.stem,), "widths": self.widths, "width": (self.width,), "summary": (self.summary,)}
        for key, values in widths.items():
            if any(value < GROUP or value % GROUP for value in values):
                raise validate.refuse(self, key, must=f"a multiple of {GROUP}")
        if self.image_size % (self.patch << HALVINGS):
            fits = f"a multiple of {1 << HALVINGS}·model.patch, {self.patch << HALVINGS}"
            raise validate.refuse(self, "image_size", must=f"{fits}: the coarsest map is cut into patches")
        validate.require_multiple(self, "width", of="heads")

    def pyramid(self, image):
        """The maps `[b h w width]` at a quarter, an eighth and a sixteenth of the image's side, finest first."""
        x = nn.relu(self.stem_norm(self.stem_conv(patch.windows(image))))
        maps = []
        for extract, lateral in zip(self.extract, self.lateral, strict=True):
            x = extract(x)
            maps.append(lateral(x))
        for i in (1, 0):
            maps[i] = maps[i] + maps[i + 1].repeat(2, axis=1).repeat(2, axis=2)
        return maps

    def features(self, batch, *, train=False):
        """The head's input `[b summary]`."""
        validate.require_images(self, batch["image"])
        x, *coarser = self.pyramid(batch["image"])
        for enhance, attend, level in zip(self.enhance, self.radar_vit, coarser, strict=True):
            x = attend(enhance(x) + level, train=train)
        return nn.relu(self.summary_norm(self.summarise(x))).mean((1, 2))

    def __call__(self, batch, *, train=False):
        """Logits `[b outputs]`."""
        return self.head(self.features(batch, train=train))


def _norm(name=None):
    return nn.GroupNorm(num_groups=None, group_size=GROUP, epsilon=1e-5, name=name)
