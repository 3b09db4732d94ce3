"""Text embeddings: token + position + segment, at full width or factorised."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lwt import errors
from lwt.layers import linear

KINDS = ("full", "nano")


class TiedEmbed(nn.Module):
    """A table `[v d]` that embeds token ids and gives tied output logits.

    Attributes:
        vocabulary: number of rows v.
        width: d. The initial standard deviation is d^-0.5, so that tied logits start near unit variance.
    """

    vocabulary: int
    width: int

    def setup(self):
        start = nn.initializers.normal(self.width**-0.5)
        self.embedding = linear.weight(self, "embedding", init=start, shape=(self.vocabulary, self.width))

    def __call__(self, ids):
        """Maps ids `[...]` to rows `[... d]`."""
        return linear.take(self.embedding, ids)

    def table(self):
        """The table as an array `[v d]`."""
        return linear.dense(self.embedding)


class FullEmbed(nn.Module):
    """``token[id] + position[t] + segment[s]``, all of width d: d·(v + l + segments) weights (EmbBERT-Q, equation 1).

    Attributes:
        vocabulary: v.
        max_length: l, the longest text.
        width: d.
        segments: rows of the segment table. 3: padding, first and second text, as in the paper's code. 2: first and
            second, as in its formulas and BERT; padding, which nothing reads, then takes the first row.
        std: standard deviation of the initial token table; 1 in the paper's code, 0.02 in BERT.
        position_std: that of positions and segments; None for the same.
    """

    vocabulary: int
    max_length: int
    width: int
    segments: int = 3
    std: float = 1.0
    position_std: float | None = None

    @nn.compact
    def __call__(self, ids: Int[Array, "b t"], segments: Int[Array, "b t"]) -> Float[Array, "b t d"]:
        _check_length(ids.shape[1], self.max_length)
        table, places = _tables(self)
        token = linear.weight(self, "token", init=table, shape=(self.vocabulary, self.width))
        position = self.param("position", places, (self.max_length, self.width))
        segment = self.param("segment", places, (self.segments, self.width))
        positions = linear.take(position, jnp.arange(ids.shape[1]))[None]
        return linear.take(token, ids) + positions + _segment_rows(segment, segments)


class NanoEmbed(nn.Module):
    """``token[id] W + position[t] U + segment[s]``: tables of width r, each with an expander r -> d.

    r·(v + l + 2d) + segments·d weights (EmbBERT-Q, section 3.2.1: NanoBERT's Nano Embedder, with learned positions).

    Attributes:
        reduced: r, the paper's r_d.
        use_bias: whether the expanders have biases; the paper's have none.
        dtype: operands of the expanders' products.
        vocabulary, max_length, width, segments, std, position_std: see `FullEmbed`; the segment table has full width.
    """

    vocabulary: int
    max_length: int
    width: int
    reduced: int
    segments: int = 3
    std: float = 1.0
    position_std: float | None = None
    use_bias: bool = False
    dtype: str = "float32"

    @nn.compact
    def __call__(self, ids: Int[Array, "b t"], segments: Int[Array, "b t"]) -> Float[Array, "b t d"]:
        _check_length(ids.shape[1], self.max_length)
        table, places = _tables(self)
        token = linear.weight(self, "token", init=table, shape=(self.vocabulary, self.reduced))
        position = self.param("position", places, (self.max_length, self.reduced))
        segment = self.param("segment", places, (self.segments, self.width))

        def expand(name):
            return linear.Linear(self.width, self.use_bias, dtype=self.dtype, name=name)

        tokens = expand("token_expander")(linear.take(token, ids))
        positions = expand("position_expander")(linear.take(position, jnp.arange(ids.shape[1])))
        return tokens + positions[None] + _segment_rows(segment, segments)


def make(
    kind,
    *,
    vocabulary,
    max_length,
    width,
    reduced=16,
    segments=3,
    std=1.0,
    position_std=None,
    use_bias=False,
    dtype="float32",
):
    """Makes the embedder ``"full"`` or ``"nano"``.

    Raises:
        lwt.errors.ConfigError: the kind is unknown, or the segment rows are not 2 or 3.
    """
    if kind not in KINDS:
        raise errors.ConfigError(f"model.embedding={kind!r}: {errors.suggest(kind, KINDS)}")
    if segments not in (2, 3):
        raise errors.ConfigError(f"model.segments={segments} should be 2 (first, second) or 3 (padding, first, second)")
    common = dict(
        vocabulary=vocabulary, max_length=max_length, width=width, segments=segments, std=std, position_std=position_std
    )  # fmt: skip
    if kind == "full":
        return FullEmbed(**common)
    return NanoEmbed(**common, reduced=reduced, use_bias=use_bias, dtype=dtype)


def _tables(embed):
    """The initializers of the token table, and of the position and segment tables."""
    places = embed.std if embed.position_std is None else embed.position_std
    return nn.initializers.normal(embed.std), nn.initializers.normal(places)


def _check_length(t, max_length):
    if t > max_length:
        raise errors.ConfigError(f"a row of {t} tokens is longer than model.max_length={max_length}; one should change")


def _segment_rows(table, segments):
    """Looks up rows of a table of two or three by a product, whose gradient avoids a scatter into so few rows."""
    count = table.shape[0]
    rows = segments if count == 3 else jnp.maximum(segments - 1, 0)
    return linear.linear(jax.nn.one_hot(rows, count), table)
