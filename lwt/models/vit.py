"""The Vision Transformer.

Source: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1; sizes Ti and S after Touvron et al. 2021.
Weights, heads included:

    the defaults: images of 32 × 32, 10 classes ("Vertical LoRA", section 4)                       9,549,578
    Ti/16  patch=16, width=192, heads=3, hidden=768      } image_size=224, 1000 classes            5,717,416
    S/16   patch=16, width=384, heads=6, hidden=1536     }                                        22,050,664
    B/16   patch=16, width=768, heads=12, hidden=3072    }                                        86,567,656
    CCT-2/3x2   patch=4, width=128, layers=2, heads=2, hidden=128  } stem="pooled",                  284,491
    CCT-7/3x1   patch=2, width=256, layers=7, heads=4, hidden=512  } pool="sequence", 10 classes   3,765,515

Known deviations: the GELU is exact by default, as in the paper and timm, while the authors' code approximates it by
tanh ("gelu_tanh"); the hybrid's CNN is a `patch.ConvStem`, not part of a ResNet; no tanh layer precedes the head, which
the authors use in pre-training only; CCT has biases in the projections to queries, keys and values, and no stochastic
depth. `lwt/export/torch/timm.py` reads checkpoints.
"""

import collections.abc

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.attention import softmax
from lwt.layers import blocks, dropout, linear, mlp, norm, patch, position, sublayers, validate

POOLS = ("token", "tokens", "mean", "sequence")
STEMS = ("patches", "conv", "pooled")


class Block(nn.Module):
    """``x = x + Dropout(Attention(Norm(x)))``, then ``x = x + Dropout(MLP(Norm(x)))`` (equations 2 and 3)."""

    make_attention: collections.abc.Callable
    make_mlp: collections.abc.Callable
    norm_epsilon: float = 1e-6
    dropout: float = 0.0

    def setup(self):
        self.attention_norm = norm.make("layer", epsilon=self.norm_epsilon)
        self.attention = self.make_attention()
        self.mlp_norm = norm.make("layer", epsilon=self.norm_epsilon)
        self.mlp = self.make_mlp()
        self.drop = dropout.Dropout(self.dropout)

    def __call__(self, x: Float[Array, "b t d"], *, train: bool = False, first: bool = False):
        """Maps states `[b t d]` to `[b t d]`; with `first`, to `[b 1 d]`, position 0 alone, if the attention can."""
        normed, context = self.attention_norm(x), None
        if first and self.attention.crosses:
            x, normed, context = x[:, :1], normed[:, :1], normed
        x = blocks.once(x + self.drop(self.attention(normed, context, None, train=train), train=train))
        return blocks.once(x + self.drop(self.mlp(self.mlp_norm(x), train=train), train=train))


class ViT(nn.Module):
    """Classifies images. A batch holds `image`, normalized float `[b h w c]` with h = w = `image_size`.

    Attributes:
        outputs: classes.
        image_size: side of an image in pixels; channels: channels of an image.
        patch: side of a patch in pixels; in the hybrid, image pixels per side of a pixel of the CNN's feature map.
        width: d; layers: l; heads: h; hidden: width f of the feed-forward networks.
        stem: "patches", or "conv": the hybrid, whose patches are the single pixels of the feature map after log2(patch)
            convolutions of stride 2; the last has width d, and each half the width of the next. "pooled": the same with
            convolutions and pooling (`patch.PoolStem`), whose pixels are the tokens as they are.
        positions: "learned" or "sinusoidal" (fixed, in two dimensions).
        pool: input of the head: "token", the state of a class token; "tokens", its state and that of the distillation
            token, concatenated to [2d]; "mean" of all states; or "sequence", their mean with learned weights
            (Hassani et al. 2021, section 3.3). The last two have no class token.
        distilled: whether the distillation token follows the class token (Touvron et al. 2021, section 4).
        attention: makes an attention from ``width, heads, dropout, dtype``; a file of `lwt/attention/` in a config.
        activation: "gelu", "gelu_tanh", "relu" or "silu".
        dropout: rate on the embeddings, inside the feed-forward networks, and on the sublayers' outputs.
        attention_dropout: rate on the attention weights.
        sizes: heads or hidden units of single modules, such as ``{"block_0/mlp": 70}``; see `layers/sublayers.py`.
        remat: what a block keeps for the backward pass: "none" for everything, "dots" or "blocks" for less, which is
            computed again; scan: whether the blocks are one loop in training. See `layers/blocks.py`.
    """

    outputs: int = 10
    image_size: int = 32
    channels: int = 3
    patch: int = 2
    width: int = 256
    layers: int = 12
    heads: int = 4
    hidden: int = 1024
    stem: str = "patches"
    positions: str = "learned"
    pool: str = "token"
    distilled: bool = False
    attention: collections.abc.Callable = softmax.Attention
    activation: str = "gelu"
    norm_epsilon: float = 1e-6
    dropout: float = 0.0
    attention_dropout: float = 0.0
    sizes: collections.abc.Mapping | None = None
    remat: str = "none"
    scan: bool = False
    dtype: str = "float32"

    @nn.nowrap
    def example(self):
        """A batch of one record, to initialize the model."""
        return validate.image_example(self)

    def setup(self):
        self._check()
        parts = self.sublayers()
        attend = dict(dropout=self.attention_dropout, dtype=self.dtype)
        feed = dict(activation=mlp.ACTIVATIONS[self.activation], dropout=self.dropout, dtype=self.dtype)
        self.embed = self._embed()
        self.drop = dropout.Dropout(self.dropout)
        self.block = [
            Block(
                parts[f"block_{i}/attention"].make(**attend),
                parts[f"block_{i}/mlp"].make(**feed),
                norm_epsilon=self.norm_epsilon,
                dropout=self.dropout,
            )
            for i in range(self.layers)
        ]
        self.norm = norm.make("layer", epsilon=self.norm_epsilon)
        if self.pool == "sequence":
            self.weigh = linear.Linear(1, dtype=self.dtype)
        self.head = linear.Linear(self.outputs, dtype=self.dtype)

    @nn.nowrap
    def sublayers(self):
        """The modules that `sizes` may name: ``{module: sublayers.Sublayer}``."""
        blocks = [f"block_{i}" for i in range(self.layers)]
        attentions = {f"{block}/attention": self.attention for block in blocks}
        return sublayers.of(self, attentions, networks=[f"{block}/mlp" for block in blocks])

    def _embed(self):
        size, widths = self.patch, ()
        if self.stem != "patches":
            stages = self.patch.bit_length() - 1
            size, widths = 1, tuple(self.width >> i for i in reversed(range(stages)))
        given = dict(positions=self.positions, epsilon=self.norm_epsilon, dtype=self.dtype)
        given |= dict(stem_widths=widths, pooled=self.stem == "pooled")
        return patch.PatchEmbed(
            self.width, size, token=self.pool in ("token", "tokens"), distilled=self.distilled, **given
        )

    def _check(self):
        sizes = ("outputs", "image_size", "channels", "patch", "width", "layers", "heads", "hidden")
        validate.require_positive(self, *sizes)
        validate.require_rates(self, "dropout", "attention_dropout")
        validate.require_choices(self, stem=STEMS, positions=position.KINDS, pool=POOLS, activation=mlp.ACTIVATIONS)
        validate.require_choices(self, remat=blocks.REMAT)
        validate.require_scales(self, "norm_epsilon")
        validate.require_multiple(self, "image_size", of="patch")
        validate.require_multiple(self, "width", of="heads")
        if self.distilled and self.pool in ("mean", "sequence") or self.pool == "tokens" and not self.distilled:
            raise validate.refuse(self, "pool", must=f"{POOLS[0]!r} or, with model.distilled, {POOLS[1]!r}")
        if self.positions == "sinusoidal" and self.width % 4:
            raise validate.refuse(self, "width", must="a multiple of 4 for sinusoidal positions")
        power = self.patch > 1 and self.patch & (self.patch - 1) == 0
        if self.stem != "patches" and not (power and self.width % (self.patch // 2) == 0):
            raise errors.ConfigError(
                f"model.patch={self.patch} must be 2, 4, 8, ... with model.stem={self.stem!r}, and half of it must "
                f"divide model.width={self.width}: every convolution halves the image and doubles the channels"
            )

    def hidden_states(self, batch, *, train=False):
        """The states `[b t d]` after the last norm; the tokens, if any, come first."""
        return self.norm(self._encode(batch, train=train))

    def _encode(self, batch, *, train, first=False):
        validate.require_images(self, batch["image"])
        x = self.drop(self.embed(batch["image"]), train=train)
        x = blocks.run(self.block[:-1], x, model=self, train=train)
        return blocks.run(self.block[-1:], x, model=self, train=train, first=first)

    def features(self, batch, *, train=False):
        """The head's input `[b d]`, or `[b 2d]` with ``pool="tokens"``."""
        if self.pool == "token":  # a single query of the last block
            return self.norm(self._encode(batch, train=train, first=True)[:, 0])
        states = self.hidden_states(batch, train=train)
        if self.pool == "sequence":
            return (nn.softmax(self.weigh(states), axis=1) * states).sum(1)
        if self.pool == "tokens":
            return jnp.concatenate([states[:, 0], states[:, 1]], axis=-1)
        return states.mean(1)

    def __call__(self, batch, *, train=False):
        """Logits `[b outputs]`."""
        return self.head(self.features(batch, train=train))
