"""The base class of all text models, and its heads."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lwt.layers import blocks, dropout, linear, validate

HEADS = ("none", "pretrain", "classify")
POOLS = ("first", "rms", "mean", "pair")
GAIN = 4.0  # of the logits of n-grams
_START, _PRIME = np.int32(2_166_136_261 - (1 << 32)), np.int32(16_777_619)  # of a hash
MASK, SPECIALS = 3, tuple(range(5))  # the ids of [MASK] and of all special tokens, in lwt's own tokenizers


class Output(nn.Module):
    """``x @ kernel + bias`` with access to its weights as a table, for losses that never form all logits."""

    width: int
    features: int
    dtype: str = "float32"

    def setup(self):
        shape = (self.width, self.features)
        self.kernel = linear.weight(self, "kernel", init=nn.initializers.xavier_uniform(), shape=shape)
        self.bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))

    def __call__(self, x):
        return linear.linear(x, self.kernel, bias=self.bias, dtype=self.dtype)

    def table(self):
        """``(table [features d], bias [features])``."""
        return linear.dense(self.kernel).T, self.bias


class Ngrams(nn.Module):
    """A linear classifier of token ids and of pairs of neighbouring ids, hashed into a table of `rows`.

    The logits are the sum of a text's rows times ``GAIN / sqrt(their number)``. Features with the same hash share a row
    (Weinberger et al. 2009, arXiv 0902.2206). There are ``rows · outputs`` weights; they start at 0.
    """

    rows: int
    outputs: int

    def setup(self):
        shape = (self.rows, self.outputs)
        self.embedding = linear.weight(self, "embedding", init=nn.initializers.zeros_init(), shape=shape)

    def __call__(self, ids: Int[Array, "b t"], segments: Int[Array, "b t"]) -> Float[Array, "b outputs"]:
        """The logits of ids and their segments; segment 0 is padding."""
        found, exist = places(ids, segments, rows=self.rows)
        rows = linear.take(self.embedding, found)
        count = jnp.maximum(exist.sum((1, 2)), 1).astype(jnp.float32)
        return jnp.where(exist[..., None], rows, 0.0).sum((1, 2)) * (GAIN * jax.lax.rsqrt(count))[:, None]


def places(ids, segments, *, rows):
    """The row of each id and of its pair with the id before, int32 `[b t 2]`; and which of them exist, bool.

    Padding has neither, and the first id of a text has no pair. A row is a hash modulo the number of `rows`. The hash
    is FNV-1a of 32 bits with ids in place of bytes; at the end its upper half is mixed into the lower one. The
    operations are those that the files for phones have, too: signed, without a remainder, a shift or a bitwise "and".
    """
    before = jnp.pad(ids, ((0, 0), (1, 0)))[:, :-1]
    own = segments > 0
    paired = own & (jnp.pad(segments, ((0, 0), (1, 0)))[:, :-1] == segments)
    hashes = jnp.stack([_mixed(_START, ids), _mixed(_mixed(_START, before), ids)], axis=-1)
    negative = hashes < 0  # as an unsigned number, it is `half` larger than `rest`
    half, rest = 1 << 31, jnp.where(negative, hashes + np.int32(-1 << 31), hashes)
    rest ^= _quotient(rest, 1 << 16) + jnp.where(negative, half >> 16, 0)
    found = _remainder(_remainder(rest, rows) + jnp.where(negative, half % rows, 0), rows)
    return found, jnp.stack([own, paired], axis=-1)


def _mixed(value, ids):
    return (value ^ ids) * _PRIME


def _quotient(x, divisor):
    """``x // divisor`` of an x that is not negative."""
    return jax.lax.div(x, jnp.full_like(x, divisor))


def _remainder(x, divisor):
    """``x % divisor`` of an x that is not negative."""
    return x - _quotient(x, divisor) * divisor


class Heads(nn.Module):
    """The layers of one kind of head; all parameters below ``head/``.

    "pretrain" has ``masked_lm`` (d -> v, not tied to the embedding) and ``next_sentence`` (d -> 2), "classify" has
    ``classifier`` (features -> outputs) and, with `ngram_weights`, ``ngrams``; "none" has nothing.
    """

    kind: str
    width: int
    features: int
    vocabulary: int
    outputs: int
    ngram_weights: int = 0
    dtype: str = "float32"

    def setup(self):
        if self.kind == "pretrain":
            self.masked_lm = Output(self.width, self.vocabulary, dtype=self.dtype)
            self.next_sentence = Output(self.width, 2)
        elif self.kind == "classify":
            self.classifier = Output(self.features, self.outputs)
            if self.ngram_weights:
                self.ngrams = Ngrams(self.ngram_weights // self.outputs, self.outputs)


class TextModel(nn.Module):
    """The base of text encoders. A batch holds `ids` and `segments`, both `[b t]` int32; segment 0 is padding.

    Subclasses add ``encode(batch, *, train, first=False) -> [b t d]``, the last states. With `first`, only position 0
    is needed, and a model may return fewer positions.

    Attributes:
        vocabulary: v.
        max_length: l, the longest text.
        width: d.
        head: "none", "pretrain" or "classify"; see `Heads`.
        outputs: outputs of the classifier: the number of classes, or 1 for regression.
        pool: input of the classifier: "first", the state at position 0; "mean" or "rms", the mean or the root mean
            square over the positions without padding; or "pair", four times as wide: u and v, the root mean squares of
            the first and the second text, with |u - v| and u * v (Conneau et al. 2017, arXiv 1705.02364, section 3.1).
        head_dropout: rate on the classifier's input.
        word_dropout: rate at which tokens become [MASK] in training a classifier (Iyyer et al. 2015, section 3, drop
            them instead). `thinned` returns the remaining ids, so that a teacher reads the same.
        ngram_weights: the most weights that a table of n-grams may have, whose logits are added to those of the
            classifier; it has ``ngram_weights // outputs`` rows, see `Ngrams`. 0 for none.
        remat: what a block keeps for the backward pass: "none" for everything, "dots" or "blocks" for less, which is
            computed again; scan: whether the blocks are one loop in training. See `layers/blocks.py`.
        normalize: whether `text_vectors` have length 1.
        embedding_std: standard deviation of the initial token table; 1 in EmbBERT-Q's code, 0.02 in BERT. Small tables
            learn far faster (docs/results/initial_weights).
        position_std: that of positions and segments.
        mask, specials: the tokenizer's id of [MASK], and the ids that word dropout keeps.
    """

    vocabulary: int
    max_length: int = 256
    width: int = 128
    head: str = "none"
    outputs: int = 2
    pool: str = "first"
    head_dropout: float = 0.0
    word_dropout: float = 0.0
    ngram_weights: int = 0
    normalize: bool = False
    embedding_std: float = 1.0
    position_std: float = 1.0
    remat: str = "none"
    scan: bool = False
    mask: int | None = MASK
    specials: tuple[int, ...] = SPECIALS
    dtype: str = "float32"

    @property
    def features(self):
        """The width f of the classifier's input."""
        return 4 * self.width if self.pool == "pair" else self.width

    @nn.nowrap
    def example(self):
        """A batch of one record, to initialize the model."""
        return {key: jnp.ones((1, 2), jnp.int32) for key in ("ids", "segments")}

    def setup(self):
        validate.require_choices(self, head=HEADS, pool=POOLS, remat=blocks.REMAT)
        validate.require_positive(self, "vocabulary", "max_length", "width", "outputs")
        validate.require_rates(self, "head_dropout", "word_dropout")
        validate.require_scales(self, "embedding_std", "position_std")
        if self.word_dropout and self.mask is None:
            raise validate.refuse(self, "word_dropout", must="0: the tokenizer has no token for masked words")
        if self.pool == "pair" and self.head == "pretrain":
            raise validate.refuse(self, "pool", must="'first', 'mean' or 'rms' with model.head='pretrain'")
        if self.ngram_weights and self.ngram_weights < self.outputs:
            raise validate.refuse(self, "ngram_weights", must=f"0, or at least model.outputs={self.outputs}")
        sizes = (self.width, self.features, self.vocabulary, self.outputs, self.ngram_weights)
        self.head_layers = Heads(self.head, *sizes, dtype=self.dtype, name="head")
        self.drop = dropout.Dropout(self.head_dropout)

    def pooled(self, hidden: Float[Array, "b t d"], batch: dict | None = None) -> Float[Array, "b f"]:
        """Pools hidden states to the classifier's input, see `pool`; without a batch, takes the state at position 0."""
        if self.pool == "first" or batch is None:
            return hidden[:, 0]
        if self.pool in ("mean", "rms"):
            pool = _mean if self.pool == "mean" else _root_mean_square
            return pool(hidden, batch["segments"] > 0)
        u, v = (_root_mean_square(hidden, batch["segments"] == text) for text in (1, 2))
        return jnp.concatenate([u, v, jnp.abs(u - v), u * v], axis=-1)

    def text_vectors(self, batch, *, normalize=None, train=False):
        """The pooled states `[b f]` as they are, without a pooler: what describes a text as a vector.

        Args:
            normalize: whether the vectors get length 1; None: as the model says.
        """
        found = TextModel.pooled(self, self.hidden_states(batch, train=train), batch)
        if self.normalize if normalize is None else normalize:
            return found / jnp.maximum(jnp.linalg.norm(found, axis=-1, keepdims=True), 1e-12)
        return found

    def hidden_states(self, batch, *, train=False):
        """The last states `[b t d]`; those of padding (segment 0) are finite but meaningless."""
        return self.encode(batch, train=train)

    def first_states(self, batch, *, train=False):
        """The last states `[b 1 d]` or more, for callers that need position 0 only."""
        return self.encode(batch, train=train, first=True)

    def output_layer(self):
        """The ``(table [v d], bias [v])`` of the masked-LM head; raises ConfigError for another head."""
        self._require_pretraining()
        return self.head_layers.masked_lm.table()

    def next_sentence(self, hidden: Float[Array, "b t d"], batch: dict | None = None) -> Float[Array, "b 2"]:
        """Logits of "random" and "contiguous", from hidden states; raises ConfigError if the model has another head."""
        self._require_pretraining()
        return self.head_layers.next_sentence(self.pooled(hidden, batch))

    def _require_pretraining(self):
        if self.head != "pretrain":
            raise validate.refuse(self, "head", must="'pretrain' for this task")

    def thinned(self, batch, *, train):
        """The batch after word dropout."""
        if not train or dropout.kept_of_256(self.word_dropout) == 256:
            return batch
        ids = batch["ids"]
        special = (ids[..., None] == jnp.asarray(self.specials)).any(-1)
        keep = dropout.keep_mask(self.make_rng("dropout"), self.word_dropout, shape=ids.shape) | special
        return {**batch, "ids": jnp.where(keep, ids, self.mask)}

    def __call__(self, batch, *, train=False):
        """Logits `[b outputs]` ("classify"), hidden states `[b t d]` ("none"), or both outputs of "pretrain":
        ``([b t v], [b 2])``."""
        if self.head == "classify":
            states = self.first_states if self.pool == "first" else self.hidden_states
            pooled = self.pooled(states(self.thinned(batch, train=train), train=train), batch)
            logits = self.head_layers.classifier(self.drop(pooled, train=train))
            if not self.ngram_weights:
                return logits
            return logits + self.head_layers.ngrams(batch["ids"], batch["segments"])
        hidden = self.hidden_states(batch, train=train)
        if self.head == "pretrain":
            return self.head_layers.masked_lm(hidden), self.next_sentence(hidden, batch)
        return hidden


def _mean(hidden, chosen):
    """The mean `[b d]` over the `chosen` positions `[b t]`; 0 for a row without any."""
    chosen = chosen[..., None]
    return jnp.where(chosen, hidden, 0.0).sum(1) / jnp.maximum(chosen.sum(1), 1)


def _root_mean_square(hidden, chosen):
    """The root mean square `[b d]` over the `chosen` positions `[b t]`; almost 0 for a row without any."""
    chosen = chosen[..., None]
    mean = jnp.where(chosen, jnp.square(hidden), 0.0).sum(1) / jnp.maximum(chosen.sum(1), 1)
    return jnp.sqrt(mean + 1e-12)  # keeps the root's gradient finite in a row without any
