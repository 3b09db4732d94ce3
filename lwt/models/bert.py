"""BERT, its small sizes, and the steps from it to EmbBERT: Nano Embedder (NE) and efficient attention (EA).

Source: "EmbBERT-Q", sections 4.1 and 6 and appendix B; Devlin et al. 2019. Weights, at the sizes of the authors' code:

    BERT(2MB)     the defaults, v=2048                                                            288,720
    BERT+NE       width=90, hidden=180, embedding="nano", v=8192                                  269,898
    BERT+EA       width=84, hidden=168, layers=3, heads=1, and the EA settings, v=2048            322,560
    BERT+NE+EA    width=128, hidden=89, layers=4, heads=1, embedding="nano", EA settings, v=8192  364,772
    BERT-Tiny     width=128, hidden=512, activation="gelu", segments=2, max_length=512,
                  embedding_norm=True, pooler=True, v=30522                                       4,385,920

The EA settings are ``attention="efficient", activation="silu", norm="rms", norm_place="inline", dropout=0.0``.
BERT-Tiny is the published one; the paper's Table 2 prints v=32768 and α=2 for it. `lwt/huggingface/encoders.py` has the
settings of DistilBERT, RoBERTa, ELECTRA and ALBERT.

Known deviations: attention masks padding, unlike the code of BERT(2MB) and BERT+NE; the feed-forward network has no
inner dropout, unlike PyTorch's encoder layer.
"""

import collections.abc
import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.attention import softmax
from lwt.attention.parts import masks
from lwt.layers import blocks, dropout, linear, mlp, norm, sublayers, text_embed, text_head, validate

EMBEDDINGS = ("full", "nano")
PLACES = ("post", "inline")
POOLERS = {"tanh": jnp.tanh, **mlp.ACTIVATIONS}


class Block(nn.Module):
    """Self-attention and feed-forward, each with a residual and a norm.

    "post": ``x = Norm(x + Dropout(f(x)))``, as in BERT. "inline": ``x = Norm(x); x = x + Dropout(f(x))``, as in the
    code of the EA models: unlike in pre-norm, the residual starts from the normalized x.

    Attributes:
        attention, feed_forward: make the sublayers.
        dropout: rate on both sublayers' outputs.
    """

    attention: collections.abc.Callable
    feed_forward: collections.abc.Callable
    norm: str = "layer"
    norm_epsilon: float = 1e-5
    norm_place: str = "post"
    dropout: float = 0.1

    def setup(self):
        self.self_attention = self.attention()
        self.mlp = self.feed_forward()
        self.self_attention_norm = norm.make(self.norm, epsilon=self.norm_epsilon)
        self.mlp_norm = norm.make(self.norm, epsilon=self.norm_epsilon)
        self.drop = dropout.Dropout(self.dropout)

    def __call__(self, x: Float[Array, "b t d"], mask: masks.Mask, *, train: bool = False, first: bool = False):
        """Maps x `[b t d]` and its mask to `[b t d]`; with `first`, to `[b 1 d]`, position 0 alone."""
        inline = self.norm_place == "inline"
        x = self.self_attention_norm(x) if inline else x
        x, context = (x[:, :1], x) if first and self.self_attention.crosses else (x, None)
        x = blocks.once(x + self.drop(self.self_attention(x, context, mask, train=train), train=train))
        x = self.mlp_norm(x) if inline else self.self_attention_norm(x)
        x = blocks.once(x + self.drop(self.mlp(x), train=train))
        return x if inline else self.mlp_norm(x)


class Bert(text_head.TextModel):
    """The encoder; its batch, heads and common attributes are those of `lwt/layers/text_head.py`.

    Attributes:
        heads: h; hidden: width f of the feed-forward network, α·d in the paper; layers: N.
        embedding: "full" or "nano"; reduced: the nano tables' width r_d.
        embedding_width: width of the tables and of their norm, which a linear layer follows, as in ELECTRA and ALBERT;
            0: the tables have the model's width.
        segments: 3 rows in the paper's code (padding, first, second), 2 in BERT, 1 in RoBERTa, 0 in DistilBERT.
        attention: makes an attention from ``width, heads, dropout, dtype``; a file of `lwt/attention/` in a config.
        activation: "relu", "silu", "gelu" (exact) or "gelu_tanh".
        norm, norm_epsilon, norm_place: see `Block`.
        dropout: rate on the sublayers' outputs, and on the embeddings if they are normalized.
        attention_dropout: rate on the attention weights.
        embedding_norm: whether a norm (with dropout) follows the embeddings, as in BERT.
        shared: whether all layers are one block, as in ALBERT.
        pooler: whether ``activation(W x + b)`` of position 0 precedes the heads, as in BERT; it is part of the body.
            With a `pool` other than "first", its weights are kept and not used.
        pooler_activation: "tanh", or one of the other activations.
        sizes: heads or hidden units of single modules, such as ``{"block_0/mlp": 70}``; see `layers/sublayers.py`.
    """

    width: int = 80
    heads: int = 2
    hidden: int = 160
    layers: int = 2
    embedding: str = "full"
    reduced: int = 16
    segments: int = 3
    attention: collections.abc.Callable = softmax.Attention
    activation: str = "relu"
    norm: str = "layer"
    norm_epsilon: float = 1e-5
    norm_place: str = "post"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    embedding_norm: bool = False
    embedding_width: int = 0
    shared: bool = False
    pooler: bool = False
    pooler_activation: str = "tanh"
    sizes: collections.abc.Mapping | None = None

    def setup(self):
        super().setup()
        self._check()
        reduced = self.reduced if self.embedding == "nano" else 0
        self.embed = text_embed.of(self, reduced=reduced, width=self.embedding_width)
        if self.embedding_norm:
            self.embed_norm = norm.make(self.norm, epsilon=self.norm_epsilon)
            self.embed_drop = dropout.Dropout(self.dropout)
        if self.embedding_width:
            self.embed_project = linear.Linear(self.width, dtype=self.dtype)
        parts = self.sublayers()
        keys = ("norm", "norm_epsilon", "norm_place", "dropout")
        block = functools.partial(Block, **{key: getattr(self, key) for key in keys})
        self.block = [
            block(
                parts[f"block_{i}/self_attention"].make(dropout=self.attention_dropout, dtype=self.dtype),
                parts[f"block_{i}/mlp"].make(activation=mlp.ACTIVATIONS[self.activation], dtype=self.dtype),
            )
            for i in range(self.blocks)
        ]
        if self.pooler:
            self.pool_layer = linear.Linear(self.width, dtype=self.dtype, name="pooler")

    @property
    def blocks(self):
        """The number of blocks with weights of their own."""
        return 1 if self.shared else self.layers

    @nn.nowrap
    def sublayers(self):
        """The modules that `sizes` may name: ``{module: sublayers.Sublayer}``."""
        blocks = [f"block_{i}" for i in range(self.blocks)]
        attentions = {f"{block}/self_attention": self.attention for block in blocks}
        return sublayers.of(self, attentions, networks=[f"{block}/mlp" for block in blocks])

    def _check(self):
        validate.require_positive(self, "heads", "hidden", "layers", "reduced")
        validate.require_rates(self, "dropout", "attention_dropout")
        validate.require_scales(self, "norm_epsilon")
        choices = dict(embedding=EMBEDDINGS, activation=mlp.ACTIVATIONS, norm_place=PLACES, pooler_activation=POOLERS)
        validate.require_choices(self, **choices)
        validate.require_multiple(self, "width", of="heads")
        if self.embedding_width < 0 or (self.embedding_width and self.embedding == "nano"):
            raise validate.refuse(
                self, "embedding_width", must="0 (the model's width) or, with model.embedding='full', more"
            )

    def encode(self, batch, *, train, first=False):
        """The last block's states; with `first`, that of position 0 `[b 1 d]`, from a single query."""
        x = self.embed(batch["ids"], batch["segments"])
        if self.embedding_norm:
            x = self.embed_drop(self.embed_norm(x), train=train)
        if self.embedding_width:
            x = self.embed_project(x)
        mask = masks.Mask(batch["segments"])
        layers = [self.block[0 if self.shared else i] for i in range(self.layers)]
        x = blocks.run(layers[:-1], x, mask, model=self, train=train)
        x = blocks.run(layers[-1:], x, mask, model=self, train=train, first=first)
        if self.is_initializing() and self.pooler:
            self.pool_layer(x[:, 0])  # a pooler's weights are part of the body, whatever the head reads
        return x

    def pooled(self, hidden, batch=None):
        x = super().pooled(hidden, batch)
        return POOLERS[self.pooler_activation](self.pool_layer(x)) if self.pooler and self.pool == "first" else x
