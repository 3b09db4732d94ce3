"""Text embeddings: token + position + segment, at full width or factorised."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from lwt import errors
from lwt.layers import blocks, linear, products


class TiedEmbed(nn.Module):
    """A table `[v d]` that embeds token ids and gives tied output logits, which start near unit variance."""

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


def logits(x, table, *, bias=None, dtype=jnp.float32):
    """``linear(x, table.T)``, the logits `[... v]` of states x `[... d]` by a large table `[v d]`.

    In bfloat16, XLA's CPU backend would write the transposed table in each call, and then multiply at half the speed.
    """
    if products.held_in(dtype) != jnp.bfloat16:
        return linear.linear(x, table.T, bias=bias, dtype=dtype)
    rows, table = x.reshape(-1, x.shape[-1]).astype(dtype), jax.lax.optimization_barrier(table.astype(dtype))
    y = jax.lax.dot_general(rows, table, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    y = y if bias is None else linear.add_bias(y, bias)
    return blocks.output(y.reshape(*x.shape[:-1], -1))


class TextEmbed(nn.Module):
    """``token[id] + position[t] + segment[s]``, at full width or factorised.

    At full width: d·(v + l + segments) weights (EmbBERT-Q, equation 1). Factorised, the tables of tokens and positions
    have width r, each with an expander r -> d: r·(v + l + 2d) + segments·d weights (section 3.2.1: NanoBERT's Nano
    Embedder, with learned positions).

    Attributes:
        vocabulary: v.
        max_length: l, the longest text.
        width: d.
        reduced: r, the paper's r_d; 0: full width.
        segments: rows of the segment table. 3: padding, first and second text, as in the paper's code. 2: first and
            second, as in its formulas and BERT. 1: one for all, as in RoBERTa. 0: no table, as in DistilBERT.
        std: standard deviation of the initial token table.
        position_std: that of positions and segments.
        use_bias: whether the expanders have biases; the paper's have none.
    """

    vocabulary: int
    max_length: int
    width: int
    reduced: int = 0
    segments: int = 3
    std: float = 1.0
    position_std: float = 1.0
    use_bias: bool = False
    dtype: str = "float32"

    @nn.compact
    def __call__(self, ids: Int[Array, "b t"], segments: Int[Array, "b t"]) -> Float[Array, "b t d"]:
        t, narrow = ids.shape[1], self.reduced or self.width
        if self.segments not in range(4):
            raise errors.ConfigError(
                f"model.segments={self.segments} must be 0, 1, 2 (first, second) or 3 (padding, first, second)"
            )
        if t > self.max_length:
            raise errors.ConfigError(f"a row of {t} tokens is longer than model.max_length={self.max_length}")
        table = nn.initializers.normal(self.std)
        places = nn.initializers.normal(self.position_std)
        token = linear.weight(self, "token", init=table, shape=(self.vocabulary, narrow))
        position = linear.weight(self, "position", init=places, shape=(self.max_length, narrow))
        segment = None
        if self.segments:
            segment = linear.weight(self, "segment", init=places, shape=(self.segments, self.width))

        def expand(name, rows):
            if not self.reduced:
                return rows
            return linear.Linear(self.width, self.use_bias, dtype=self.dtype, name=f"{name}_expander")(rows)

        tokens = expand("token", linear.take(token, ids))
        positions = expand("position", linear.take(position, jax.lax.iota(jnp.int32, t)))
        found = tokens + positions[None]
        return found if segment is None else found + _segment_rows(segment, segments)


def of(model, *, reduced=0, width=0, **more):
    """The embedding of a text model, from the model's fields; see `TextEmbed`.

    Args:
        width: of the embedding; 0: that of the model.
    """
    keys = ("vocabulary", "max_length", "segments", "position_std", "dtype")
    fields = {key: getattr(model, key) for key in keys} | {"width": width or model.width}
    return TextEmbed(**fields, reduced=reduced, std=model.embedding_std, **more)


def _segment_rows(table, segments):
    """Looks up rows of a table of up to three by a product, whose gradient avoids a scatter into so few rows."""
    count = table.shape[0]
    if count == 1:
        return linear.dense(table)[0]
    rows = segments if count == 3 else jnp.maximum(segments - 1, 0)
    return linear.linear(jax.nn.one_hot(rows, count), table)
