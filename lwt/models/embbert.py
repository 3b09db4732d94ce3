"""EmbBERT: a Nano Embedder and efficient encoders of attention minus convolution.

Source: "EmbBERT-Q: Breaking Memory Barriers in Embedded NLP", section 3.1. The defaults are those of the authors' code:
at the paper's size (v=8192, l=256, d=128, r=16, α=1, k=32, N=4) they have 357,248 weights, the paper's "357 K".

The formulas of the paper (sections 3.1 and 3.2) mean ``use_bias=False, norm="layer", segments=2``: no biases, two
vectors per norm and two segment rows. That has 353,536 weights, plus the λ vectors, which the paper does not count.
Neither reading has a residual around an encoder or a norm after the last one.
"""

import collections.abc
import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors, trees
from lwt.attention import efficient
from lwt.attention.parts import masks
from lwt.layers import blocks, conv, linear, norm, text_embed, text_head, validate

PATHS = ("attention", "conv")


class Difference(nn.Module):
    """``λ_a · a - λ_c · c`` with ``λ = exp(q · k)``, from two learned vectors `[d]` per path, or `collapsed` to λ."""

    collapsed: bool = False

    @nn.compact
    def __call__(self, a: Float[Array, "b t d"], c: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        if self.collapsed:
            weight = {path: self.param(path, nn.initializers.ones_init(), ()) for path in PATHS}
        else:
            pairs = {path: [self._vector(f"{path}_{end}", a.shape[-1]) for end in ("query", "key")] for path in PATHS}
            weight = {path: _weight(*pair) for path, pair in pairs.items()}
        return weight["attention"] * a - weight["conv"] * c

    def _vector(self, name, width):
        return self.param(name, nn.initializers.normal(0.1), (width,))


def _weight(query, key):
    return jnp.exp((query * key).sum())


class EfficientEncoder(nn.Module):
    """``x = Norm(x)``, then ``λ_a · Attention(x) - λ_c · W SiLU(Conv(x))``; no residual (section 3.1.2).

    Attributes:
        kernel_size: k; expansion: α; norm: "rms" or "layer".
        use_bias: whether attention, convolution and contraction have biases.
    """

    kernel_size: int = 32
    expansion: int = 1
    norm: str = "rms"
    use_bias: bool = True
    conv_start: str = "uniform"
    attention: collections.abc.Callable = efficient.Attention
    collapsed: bool = False
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"], mask: masks.Mask, *, train: bool = False, first: bool = False):
        """Maps x `[b t d]` and its mask to `[b t d]`; with `first`, to `[b 1 d]`, position 0 alone."""
        width = x.shape[-1]
        x = norm.make(self.norm, epsilon=1e-6, name="norm")(x)
        attention = self.attention(width, use_bias=self.use_bias, name="attention")
        x, context = (x[:, :1], x) if first and attention.crosses else (x, None)
        attended = attention(x, context, mask, train=train)
        convolved = conv.DepthwiseConv(
            self.kernel_size, self.expansion, self.use_bias, start=self.conv_start, name="conv"
        )(x)
        contracted = linear.Linear(width, use_bias=self.use_bias, dtype=self.dtype, name="contract")(nn.silu(convolved))
        return Difference(self.collapsed, name="difference")(attended, contracted)


class Embbert(text_head.TextModel):
    """The encoder; its batch, heads and common attributes are those of `lwt/layers/text_head.py`.

    Attributes:
        reduced: r_d, width of the token and position tables.
        layers: N.
        expansion: α; kernel_size: k.
        norm, use_bias, segments: the readings above.
        conv_start: initial kernels of the convolutions. The paper's code uses PyTorch's, "uniform": without residuals,
            every layer then blurs a token with the 31 before it, and pre-training stalls for thousands of steps.
            "present" avoids this (docs/papers/embbert_q.md).
        attention: makes an attention from ``width, heads, dropout, use_bias, dtype``; a file of `lwt/attention/` in a
            config.
        heads: h; 1 in the paper.
        attention_dropout: rate on the attention weights, the only dropout of the paper's code.
        collapsed: for inference: two scalars λ per block instead of four vectors; `collapse` makes such weights.
    """

    reduced: int = 16
    layers: int = 4
    expansion: int = 1
    kernel_size: int = 32
    norm: str = "rms"
    use_bias: bool = True
    segments: int = 3
    conv_start: str = "uniform"
    attention: collections.abc.Callable = efficient.Attention
    heads: int = 1
    attention_dropout: float = 0.1
    collapsed: bool = False

    def setup(self):
        super().setup()
        validate.require_positive(self, "reduced", "layers", "expansion", "kernel_size", "heads")
        validate.require_rates(self, "attention_dropout")
        validate.require_choices(self, conv_start=conv.STARTS)
        self.embed = text_embed.of(self, reduced=self.reduced)
        given = dict(heads=self.heads, dropout=self.attention_dropout, dtype=self.dtype)
        attention = functools.partial(self.attention, **given)
        keys = ("kernel_size", "expansion", "norm", "use_bias", "conv_start", "collapsed", "dtype")
        more = {key: getattr(self, key) for key in keys}
        self.block = [EfficientEncoder(attention=attention, **more) for _ in range(self.layers)]

    def encode(self, batch, *, train, first=False):
        """The last block's states; with `first`, that of position 0 `[b 1 d]`: its convolution is causal."""
        x = self.embed(batch["ids"], batch["segments"])
        mask = masks.Mask(batch["segments"])
        x = blocks.run(self.block[:-1], x, mask, model=self, train=train)
        return blocks.run(self.block[-1:], x, mask, model=self, train=train, first=first)


def collapse(params):
    """Makes weights for ``Embbert(collapsed=True)``; raises ConfigError if the tree has no λ vectors."""
    flat = trees.flatten(params)
    ends = tuple(f"/difference/{path}_query" for path in PATHS)
    stems = [name.removesuffix("_query") for name in flat if name.endswith(ends)]
    if not stems:
        raise errors.ConfigError("found no weights block_*/difference/*_query to collapse; is this a trained Embbert?")
    scalars = {stem: _weight(flat.pop(f"{stem}_query"), flat.pop(f"{stem}_key")) for stem in stems}
    return trees.unflatten(flat | scalars)
