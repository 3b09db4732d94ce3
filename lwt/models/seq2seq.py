"""The encoder-decoder transformer.

Source: Vaswani et al. 2017; "Implementing Transformers", sections 2 and 4.1. At the paper's size (d=128, 4+4 layers,
h=4, f=512, v=50,048, three-way tied) it has 8,257,536 parameters.
"""

import collections.abc
import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lwt.attention import softmax
from lwt.attention.parts import masks
from lwt.layers import blocks, dropout, linear, mlp, norm, position, sublayers, text_embed, validate


class Block(nn.Module):
    """One layer: self-attention, attention to the encoder (decoder only) and feed-forward, with residuals and norms.

    Post-norm is ``LayerNorm(x + Dropout(Sublayer(x)))`` as in the papers; pre-norm is
    ``x + Dropout(Sublayer(LayerNorm(x)))``.

    Attributes:
        attention, feed_forward: make the sublayers.
        cross: makes the attention to the encoder; None in the encoder itself.
        dropout: rate on every sublayer's output.
    """

    attention: collections.abc.Callable
    feed_forward: collections.abc.Callable
    cross: collections.abc.Callable | None = None
    pre_norm: bool = False
    dropout: float = 0.0

    def setup(self):
        self.self_attention = self.attention()
        self.self_attention_norm = norm.LayerNorm(epsilon=1e-5)
        if self.cross:
            self.cross_attention = self.cross()
            self.cross_attention_norm = norm.LayerNorm(epsilon=1e-5)
        self.mlp = self.feed_forward()
        self.mlp_norm = norm.LayerNorm(epsilon=1e-5)
        self.drop = dropout.Dropout(self.dropout)

    def _add(self, x, sublayer, normalise, *, train):
        if self.pre_norm:
            return blocks.once(x + self.drop(sublayer(normalise(x)), train=train))
        return normalise(blocks.once(x + self.drop(sublayer(x), train=train)))

    def __call__(self, x, mask, memory=None, memory_mask=None, *, train=False):
        """Maps x `[b t d]`, memory `[b s d]` and a `masks.Mask` for each to `[b t d]`."""

        def attend(y):
            return self.self_attention(y, None, mask, train=train)

        def attend_memory(y):
            return self.cross_attention(y, memory, memory_mask, train=train)

        x = self._add(x, attend, self.self_attention_norm, train=train)
        if self.cross:
            x = self._add(x, attend_memory, self.cross_attention_norm, train=train)
        return self._add(x, self.mlp, self.mlp_norm, train=train)

    def step(self, x, cache, *, index, memory, memory_mask):
        """Decodes one position: x `[b 1 d]` and both attentions' caches -> ``(x, new self-attention cache)``."""

        def attend(y):
            nonlocal cache
            y, cache = self.self_attention(y, cache=cache, index=index)
            return y

        def attend_memory(y):
            return self.cross_attention(y, None, memory_mask, cache=memory)

        x = self._add(x, attend, self.self_attention_norm, train=False)
        if self.cross:
            x = self._add(x, attend_memory, self.cross_attention_norm, train=False)
        return self._add(x, self.mlp, self.mlp_norm, train=False), cache


class Stack(nn.Module):
    """A stack of blocks, made by the functions `layers`, the lowest first, with a LayerNorm at the end or not."""

    layers: tuple
    final_norm: bool = False
    remat: str = "none"
    scan: bool = False

    def setup(self):
        self.layer = [make() for make in self.layers]
        if self.final_norm:
            self.norm = norm.LayerNorm(epsilon=1e-5)

    def finish(self, x):
        """Applies the final norm, if there is one."""
        return self.norm(x) if self.final_norm else x

    def __call__(self, x, mask, memory=None, memory_mask=None, *, train=False):
        return self.finish(blocks.run(self.layer, x, mask, memory, memory_mask, model=self, train=train))


class Seq2Seq(nn.Module):
    """An encoder-decoder transformer over rows of one sentence pair, or of several with their own segment numbers.

    Attributes:
        vocabulary: v, rows of the one table that embeds source and target and gives the logits (three-way tying).
        source_vocabulary: rows of a table of its own for the source; 0: the one table.
        tied_output: whether the table of the target also gives the logits; else a table of its own does.
        logits_bias: whether the logits have a bias, as in Marian's models.
        width: d.
        heads: h.
        hidden: f.
        activation: activation of the feed-forward networks: "relu" in the papers; Marian also has "silu".
        dropout: rate on embeddings and on every sublayer's output.
        attention_dropout: rate on attention weights.
        pre_norm: whether the norm precedes each sublayer (with a final norm) or follows it.
        scale_embedding: whether to multiply embeddings by √d (Vaswani, section 3.4).
        positions: "sinusoidal", as in the papers, or "learned": a table each for source and target (Vaswani, table 3,
            row E), with no entry beyond `max_length`.
        max_length: rows of learned tables, at least the longest row of a batch; 0 for sinusoids, which have no end.
        packed: whether a row may hold several pairs; attentions that mix the texts of a row need rows of one.
        attention: makes an attention from ``width, heads, dropout, dtype``; a file of `lwt/attention/` in a config.
        decoder_attention, cross_attention: the same for both attentions of the decoder; None uses `attention`.
        sizes: heads or hidden units of single modules, such as ``{"encoder/layer_0/self_attention": 3}``; see
            `layers/sublayers.py`. None keeps all.
        remat: what a block keeps for the backward pass: "none" for everything, "dots" or "blocks" for less, which is
            computed again; scan: whether the blocks are one loop in training. See `layers/blocks.py`.
    """

    vocabulary: int
    source_vocabulary: int = 0
    tied_output: bool = True
    logits_bias: bool = False
    width: int = 128
    heads: int = 4
    hidden: int = 512
    encoder_layers: int = 4
    decoder_layers: int = 4
    activation: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    pre_norm: bool = False
    scale_embedding: bool = True
    positions: str = "sinusoidal"
    max_length: int = 0
    packed: bool = True
    attention: collections.abc.Callable = softmax.Attention
    decoder_attention: collections.abc.Callable | None = None
    cross_attention: collections.abc.Callable | None = None
    sizes: collections.abc.Mapping | None = None
    remat: str = "none"
    scan: bool = False
    dtype: str = "float32"

    @nn.nowrap
    def example(self):
        """A batch of one record, to initialize the model."""
        keys = ("source", "source_segments", "source_positions", "inputs", "target_segments", "target_positions")
        return {key: jnp.ones((1, 2), jnp.int32) for key in keys}

    def setup(self):
        sizes = ("vocabulary", "width", "heads", "hidden", "encoder_layers", "decoder_layers")
        validate.require_positive(self, *sizes)
        validate.require_rates(self, "dropout", "attention_dropout")
        validate.require_choices(self, activation=mlp.ACTIVATIONS, remat=blocks.REMAT, positions=position.KINDS)
        if self.width % (2 * self.heads):
            raise validate.refuse(self, "width", must=f"a multiple of twice model.heads={self.heads}")
        if self.source_vocabulary < 0:
            raise validate.refuse(self, "source_vocabulary", must="at least 0")
        if self.positions == "sinusoidal" and self.max_length:
            raise validate.refuse(self, "max_length", must="0 with model.positions='sinusoidal', which have no end")
        self.embed = text_embed.TiedEmbed(self.vocabulary, self.width)
        if self.source_vocabulary:
            self.source_embed = text_embed.TiedEmbed(self.source_vocabulary, self.width)
        if not self.tied_output:
            self.output = text_embed.TiedEmbed(self.vocabulary, self.width)
        if self.logits_bias:
            self.output_shift = self.param("logits_bias", nn.initializers.zeros_init(), (self.vocabulary,))
        if self.positions == "learned":
            validate.require_positive(self, "max_length")
            start, shape = nn.initializers.normal(self.width**-0.5), (self.max_length, self.width)
            self.places = {
                side: linear.weight(self, f"position_{side}", init=start, shape=shape) for side in ("source", "target")
            }
        self.drop = dropout.Dropout(self.dropout)
        made = self.sublayers()
        self.encoder, self.decoder = (self._stack(layers, made) for layers in self._layers())

    @nn.nowrap
    def _layers(self):
        """The layer names of both stacks."""
        counts = (("encoder", self.encoder_layers), ("decoder", self.decoder_layers))
        return [[f"{stack}/layer_{i}" for i in range(count)] for stack, count in counts]

    @nn.nowrap
    def sublayers(self):
        """The modules that `sizes` may name: ``{module: sublayers.Sublayer}``."""
        encoder, decoder = self._layers()
        attentions = {f"{layer}/self_attention": self.attention for layer in encoder}
        for layer in decoder:
            attentions[f"{layer}/self_attention"] = self.decoder_attention or self.attention
            attentions[f"{layer}/cross_attention"] = self.cross_attention or self.attention
        return sublayers.of(self, attentions, networks=[f"{layer}/mlp" for layer in encoder + decoder])

    @nn.nowrap
    def _stack(self, layers, made):
        def attention(name):
            return made[name].make(dropout=self.attention_dropout, dtype=self.dtype) if name in made else None

        makers = [
            functools.partial(
                Block,
                attention(f"{layer}/self_attention"),
                made[f"{layer}/mlp"].make(activation=mlp.ACTIVATIONS[self.activation], dtype=self.dtype),
                attention(f"{layer}/cross_attention"),
                pre_norm=self.pre_norm,
                dropout=self.dropout,
            )
            for layer in layers
        ]
        return Stack(tuple(makers), final_norm=self.pre_norm, remat=self.remat, scan=self.scan)

    def _embed(self, table, ids, positions, *, side, train):
        x = table(ids) * (self.width**0.5 if self.scale_embedding else 1)
        if self.positions == "learned":
            self._require_places(ids.shape[1])
            return self.drop(x + linear.take(self.places[side], positions), train=train)
        return self.drop(x + position.sinusoidal(positions, self.width), train=train)

    def _require_places(self, length):
        """Raises ConfigError if the tables of learned positions are shorter than a row."""
        if self.positions == "learned" and length > self.max_length:
            raise validate.refuse(
                self, "max_length", must=f"at least {length}, the length of a row: positions are learned"
            )

    def encode(
        self, source: Int[Array, "b s"], segments: Int[Array, "b s"], *, positions: Int[Array, "b s"], train=False
    ) -> Float[Array, "b s d"]:
        """Encodes source ids, segments and positions to the memory that the decoder attends to."""
        table = self.source_embed if self.source_vocabulary else self.embed
        x = self._embed(table, source, positions, side="source", train=train)
        return self.encoder(x, self._mask(segments, segments), train=train)

    def hidden_states(self, batch, *, train=False):
        """The decoder's last hidden states `[b t d]` of a packed batch (keys: `lwt/data/batches/pair_examples.py`)."""
        source_segments, target_segments = batch["source_segments"], batch["target_segments"]
        memory = self.encode(batch["source"], source_segments, positions=batch["source_positions"], train=train)
        x = self._embed(self.embed, batch["inputs"], batch["target_positions"], side="target", train=train)
        mask = self._mask(target_segments, target_segments, causal=True)
        return self.decoder(x, mask, memory, self._mask(target_segments, source_segments), train=train)

    def _mask(self, queries, keys, *, causal=False):
        return masks.Mask(keys, queries if self.packed else None, causal=causal)

    def output_table(self):
        """The table `[v d]` that turns hidden states into logits."""
        return (self.embed if self.tied_output else self.output).table()

    def output_bias(self):
        """The bias `[v]` of the logits; None without one."""
        return self.output_shift if self.logits_bias else None

    def logits(self, hidden: Float[Array, "*n d"]) -> Float[Array, "*n v"]:
        """Maps hidden states `[... d]` to logits `[... v]`."""
        return text_embed.logits(hidden, self.output_table(), bias=self.output_bias(), dtype=self.dtype)

    def __call__(self, batch, *, train=False):
        """Logits `[b t v]`."""
        return self.logits(self.hidden_states(batch, train=train))

    def start(self, memory: Float[Array, "b s d"], source_segments: Int[Array, "b s"], *, length: int):
        """The decode cache for at most `length` steps, one sentence a row; "self" changes with each, "cross" never."""
        self._require_places(length)
        past = {"index": jnp.zeros((), jnp.int32)}
        cross = {"mask": masks.Mask(source_segments)}
        for i, layer in enumerate(self.decoder.layer):
            past[f"layer_{i}"] = layer.self_attention.empty_cache(memory.shape[0], length)
            cross[f"layer_{i}"] = layer.cross_attention.project(memory)
        return {"self": past, "cross": cross}

    def step(self, tokens: Int[Array, "b"], cache: dict):  # noqa: F821
        """Decodes one step: token ids `[b]` and the cache -> logits `[b v]` and the new cache."""
        past, cross = dict(cache["self"]), cache["cross"]
        index = past["index"]
        x = self._embed(self.embed, tokens[:, None], jnp.full((1, 1), index), side="target", train=False)
        for i, layer in enumerate(self.decoder.layer):
            name = f"layer_{i}"
            x, past[name] = layer.step(x, past[name], index=index, memory=cross[name], memory_mask=cross["mask"])
        past["index"] = index + 1
        return self.logits(self.decoder.finish(x))[:, 0], {"self": past, "cross": cross}
