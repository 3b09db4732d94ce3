"""What a text encoder does with its hidden states: the heads, and the calls that all text models share."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.layers import dropout, linear, validate

HEADS = ("none", "pretrain", "classify")
POOLS = ("first", "rms", "pair")
MASK, SPECIALS = 3, 5  # the id of [MASK], and how many ids stand for no text, in every tokenizer of an encoder


class Output(nn.Module):
    """``x @ kernel + bias`` whose weights can be had as a table, for losses that never form all logits.

    Attributes:
        width: d.
        features: outputs.
        dtype: operands of the product.
    """

    width: int
    features: int
    dtype: str = "float32"

    def setup(self):
        self.kernel = linear.weight(self, "kernel", nn.initializers.xavier_uniform(), (self.width, self.features))
        self.bias = self.param("bias", nn.initializers.zeros_init(), (self.features,))

    def __call__(self, x):
        return linear.linear(x, self.kernel, self.bias, dtype=self.dtype)

    def table(self):
        """``(table [features d], bias [features])``."""
        return linear.dense(self.kernel).T, self.bias


class Heads(nn.Module):
    """The layers of one kind of head; all parameters below ``head/``.

    "pretrain" has ``masked_lm`` (d -> v, not tied to the embedding) and ``next_sentence`` (d -> 2), "classify" has
    ``classifier`` (features -> outputs), "none" has nothing.
    """

    kind: str
    width: int
    features: int
    vocabulary: int
    outputs: int
    dtype: str = "float32"

    def setup(self):
        if self.kind == "pretrain":
            self.masked_lm = Output(self.width, self.vocabulary, dtype=self.dtype)
            self.next_sentence = Output(self.width, 2)
        elif self.kind == "classify":
            self.classifier = Output(self.features, self.outputs)


class TextModel(nn.Module):
    """Base of the text encoders. A batch holds `ids` and `segments`, both `[b t]` int32; segment 0 is padding.

    A model adds ``hidden_states(batch, *, train=False) -> [b t d]``.

    Attributes:
        vocabulary: v.
        max_length: l, the longest text.
        width: d.
        head: "none", "pretrain" or "classify"; see `Heads`.
        outputs: of the classifier: classes, or 1 for a regression.
        pool: what the classifier reads: "first", the state at position 0; "rms", the root of the mean square over the
            positions that are no padding; or "pair", four times as wide: u and v, the same of the first and of the
            second text, with |u - v| and u * v (Conneau et al. 2017, arXiv 1705.02364, section 3.1).
        head_dropout: rate on what the classifier reads.
        word_dropout: rate at which tokens become [MASK] when a classifier is trained (Iyyer et al. 2015, section 3, who
            leave them out). `thinned` returns the ids that are left, for a teacher to read the same.
        dtype: operands of the products ("float32" or "bfloat16").
    """

    vocabulary: int
    max_length: int = 256
    width: int = 128
    head: str = "none"
    outputs: int = 2
    pool: str = "first"
    head_dropout: float = 0.0
    word_dropout: float = 0.0
    dtype: str = "float32"

    @property
    def features(self):
        """How many numbers the classifier reads: f."""
        return 4 * self.width if self.pool == "pair" else self.width

    @nn.nowrap
    def example(self):
        """A smallest batch, to make weights with."""
        return {key: jnp.ones((1, 2), jnp.int32) for key in ("ids", "segments")}

    def setup(self):
        validate.require_choices(self, head=HEADS, pool=POOLS)
        validate.require_positive(self, "vocabulary", "max_length", "width", "outputs")
        validate.require_rates(self, "head_dropout", "word_dropout")
        if self.pool == "pair" and self.head == "pretrain":
            raise errors.ConfigError("model.pool='pair' should be 'first' or 'rms' with model.head='pretrain'")
        sizes = (self.width, self.features, self.vocabulary, self.outputs)
        self.head_layers = Heads(self.head, *sizes, dtype=self.dtype, name="head")
        self.drop = dropout.Dropout(self.head_dropout)

    def pooled(self, hidden: Float[Array, "b t d"], batch: dict | None = None) -> Float[Array, "b f"]:
        """Hidden states `[b t d]` -> what the classifier reads `[b f]`, as `pool` says.

        Without a batch it is not known what is padding, and the state at position 0 is returned.
        """
        if self.pool == "first" or batch is None:
            return hidden[:, 0]
        if self.pool == "rms":
            return _root_mean_square(hidden, batch["segments"] > 0)
        u, v = (_root_mean_square(hidden, batch["segments"] == text) for text in (1, 2))
        return jnp.concatenate([u, v, jnp.abs(u - v), u * v], axis=-1)

    def first_states(self, batch, *, train=False):
        """Hidden states of which only that at position 0 is wanted, `[b 1 d]` or more: a model whose last layer can do
        without the others overrides this."""
        return self.hidden_states(batch, train=train)

    def output_layer(self):
        """``(table [v d], bias [v])`` of the masked-LM head.

        Raises:
            lwt.errors.ConfigError: the model has another head.
        """
        self._require_pretraining()
        return self.head_layers.masked_lm.table()

    def next_sentence(self, hidden: Float[Array, "b t d"], batch: dict | None = None) -> Float[Array, "b 2"]:
        """Hidden states -> logits `[b 2]`, random or contiguous, from `pooled`: without a batch, from position 0.

        Raises:
            lwt.errors.ConfigError: the model has another head.
        """
        self._require_pretraining()
        return self.head_layers.next_sentence(self.pooled(hidden, batch))

    def _require_pretraining(self):
        if self.head != "pretrain":
            raise errors.ConfigError(f"model.head={self.head!r} should be 'pretrain' for this task")

    def thinned(self, batch, *, train):
        """The batch after word dropout."""
        if not train or dropout.kept_of_256(self.word_dropout) == 256:
            return batch
        ids = batch["ids"]
        keep = dropout.keep_mask(self.make_rng("dropout"), self.word_dropout, ids.shape) | (ids < SPECIALS)
        ids = jnp.where(keep, ids, MASK)
        return {**batch, "ids": ids}

    def __call__(self, batch, *, train=False):
        """Logits `[b outputs]` ("classify"), hidden states `[b t d]` ("none"), or both outputs of "pretrain":
        ``([b t v], [b 2])``."""
        if self.head == "classify":
            states = self.first_states if self.pool == "first" else self.hidden_states
            pooled = self.pooled(states(self.thinned(batch, train=train), train=train), batch)
            return self.head_layers.classifier(self.drop(pooled, train=train))
        hidden = self.hidden_states(batch, train=train)
        if self.head == "pretrain":
            return self.head_layers.masked_lm(hidden), self.next_sentence(hidden, batch)
        return hidden


def _root_mean_square(hidden, chosen):
    """Over the `chosen` positions `[b t]`: `[b t d]` -> `[b d]`; next to 0 where none is."""
    chosen = chosen[..., None]
    mean = jnp.where(chosen, jnp.square(hidden), 0).sum(1) / jnp.maximum(chosen.sum(1), 1)
    return jnp.sqrt(mean + 1e-12)  # of a row without any, the gradient of the root has to stay finite
