"""The base class of the attentions: projections, heads, cache, and the checks of what a variant can do."""

import dataclasses
import functools
import math

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.attention.parts import blockwise, core, fused, masks
from lwt.layers import blocks, linear

WHOLE = 2**27  # most weights, of all rows and heads, formed at once; larger arrays cost memory, and time to allocate it
PART = 2**24  # beyond that, weights in a block of queries
# On a CPU, heads of at most NARROW over at least LONG keys are handled one after the other, in blocks of CACHED weights
# (times the head width), which fit its cache (docs/design/speed.md).
NARROW, LONG, CACHED = 32, 1024, 2**16


class Base(nn.Module):
    """Projects to queries, keys and values in h heads, mixes the values, and projects the heads' outputs.

    A variant overrides `mix`, which handles whole sequences. A variant whose decoding is not softmax attention to all
    earlier positions also overrides `empty_cache`, `extend` and `recall`.

    Attributes:
        width: the model width d.
        heads: h; must divide d. The head width is k = d/h.
        dropout: rate on the attention weights.
        use_bias: whether the projections have biases.
    """

    width: int
    heads: int
    dropout: float = 0.0
    use_bias: bool = True
    dtype: str = "float32"

    # What a variant can do. Without annotations, so that they are not fields.
    crosses = True  # attend to another sequence
    has_causal = True  # see only the query's own and earlier positions
    keeps_texts_apart = True  # see only the query's own text in a row of several
    heads_removable = False  # have fewer heads, of unchanged width
    block = 0  # queries that `mix` handles at once; 0: all, unless that is too many
    # The ranges of its fields: other integers may be 0, and floats are finite.
    positive = ("width", "heads")
    choices = {}

    @property
    def head_size(self):
        """The width k of a head."""
        return self.width // self.heads

    @property
    def key_heads(self):
        """Heads of the keys and values."""
        return self.heads

    def setup(self):
        self.check()
        for name, width in self.projections().items():
            setattr(self, name, linear.Linear(width, use_bias=self.use_bias, dtype=self.dtype))

    def projections(self):
        """The names and output widths of the projections."""
        keys = self.key_heads * self.head_size
        return {"query": self.heads * self.head_size, "key": keys, "value": keys, "out": self.width}

    def check(self):
        """Raises ConfigError for fields that are out of range or do not fit together."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not value >= (least := int(field.name in self.positive)):
                raise self.refuse(f"{field.name}={value} must be at least {least}")
            if isinstance(value, float) and not math.isfinite(value):
                raise self.refuse(f"{field.name}={value} must be finite")
        for name, names in self.choices.items():
            if getattr(self, name) not in names:
                value = getattr(self, name)
                raise self.refuse(f"{name}={value!r}: {errors.suggest(repr(value), map(repr, names))}")
        if not 0 <= self.dropout < 1:
            raise self.refuse(f"dropout={self.dropout} must be in [0, 1)")
        if self.width % self.heads and not getattr(self, "head_width", 0):
            raise self.refuse(f"heads={self.heads} must divide width={self.width}")

    def refuse(self, why):
        """An error that names the variant and its config key."""
        path = self.path if self.scope else ()
        side = "cross_" if "cross_attention" in path else "decoder_" if path[:1] == ("decoder",) else ""
        return errors.ConfigError(f"model.{side}attention={type(self).__module__.rpartition('.')[2]!r}: {why}")

    def queries(self, x: Float[Array, "b t d"]) -> Float[Array, "b h t k"]:
        """The queries of all heads, scaled by 1/√k."""
        return split(self.query(x), self.heads) * self.head_size**-0.5

    def project(self, context: Float[Array, "b s d"]):
        """Keys and values `[b h s k]` of a context: the cache of calls that all attend to it."""
        return {name: split(getattr(self, name)(context), self.key_heads) for name in ("key", "value")}

    def empty_cache(self, batch, length):
        """A cache for `length` decoding steps; the batch is the first axis of its arrays."""
        zeros = jnp.zeros((batch, self.key_heads, length, self.head_size))
        return {"key": zeros, "value": zeros}

    def extend(self, cache, new, *, index):
        """The cache with the keys and values `new` of position `index`.

        XLA's CPU backend would fuse the update into its reader, and copy each array of the cache four times.
        """

        def write(past, now):
            return jax.lax.dynamic_update_slice_in_dim(past, now, index, axis=2)

        if jax.default_backend() == "cpu":
            write = functools.partial(blocks.unfused, write)
        return {name: write(cache[name], new[name]) for name in new}

    def recall(self, q, cache, *, index):
        """Attends from a query `[b h 1 k]` at position `index` to a cache that already holds its key: `[b h 1 k]`."""
        seen = (jnp.arange(cache["key"].shape[2]) <= index)[None, None, None, :]
        return self.weigh(q, cache, allowed=seen, dtype="float32")

    def mix(self, q, cache, *, mask, dtype, key=None):
        """Softmax attention between the projections: `[b h t k]`.

        On a GPU it is one kernel where there is one and no `block` is set; else it is computed in blocks of queries
        where that is faster or needed.

        Args:
            q: queries `[b h t k]`, scaled.
            cache: keys and values, from `project`.
            mask: a `masks.Mask`, or None.
            key: random key of dropout, or None.
        """
        (_, h, t, _), s = q.shape, cache["key"].shape[2]
        keys, values = cache["key"], cache.get("value", cache["key"])  # efficient.py has no values
        if not self.block and fused.fits(q, keys, v=values, mask=mask, key=key, dtype=dtype):
            return fused.attend(q, keys, v=values, mask=mask)
        block, apart = self._blocks(*q.shape, s)
        if t > block or apart:
            k, v = (jnp.repeat(x, h // self.key_heads, axis=1) for x in (keys, values))
            settings = dict(mask=mask, block=block, apart=apart, key=key, rate=self.dropout, dtype=dtype)
            return blockwise.attention(q, k, v=v, **settings)
        allowed = None if mask is None else mask.array(t, s)
        return self.weigh(q, cache, allowed=allowed, dtype=dtype, key=key)

    def _blocks(self, b, h, t, k, s):
        """``(queries, apart)``: how many queries `mix` handles at once, and whether heads come one after the other."""
        if blocks.is_exporting():  # sizes may be open
            return t, False
        fits = b * h * t * s <= WHOLE
        if self.block:
            return self.block, False
        if jax.default_backend() == "cpu" and (not fits or (k <= NARROW and s >= LONG)):
            return max(1, CACHED * k // (b * s)), True
        return (t if fits else max(1, PART // (b * h * s))), False

    def weigh(self, q, cache, *, allowed, dtype, key=None):
        """Softmax attention, given the mask as an array (or None)."""
        values = cache.get("value", cache["key"])
        return core.attend(q, cache["key"], v=values, mask=allowed, key=key, rate=self.dropout, dtype=dtype)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        context: Float[Array, "b s d"] | None = None,
        mask: masks.Mask | None = None,
        *,
        train: bool = False,
        cache: dict | None = None,
        index=None,
    ):
        """Attends from x to the context, or to x itself without one.

        Args:
            mask: what each query may see; None: everything.
            train: whether dropout acts.
            cache: from `project` (used unchanged) or, with an `index`, from `empty_cache`.
            index: in decoding, the position of x `[b 1 d]`; it sees itself and earlier positions, without a mask.

        Returns:
            `[b t d]`; with an index, ``(output, new cache)``.

        Raises:
            lwt.errors.ConfigError: the variant does not support the call.
        """
        q = self.queries(x)
        if index is not None:
            cache = self.extend(cache, self.project(x), index=index)
            return self.out(join(self.recall(q, cache, index=index))), cache
        self._check_use(mask, crossing=context is not None or cache is not None)
        dtype = self.dtype if cache is None else "float32"  # in decoding, products are of vectors and gain nothing
        if cache is None:
            cache = self.project(x if context is None else context)
        if mask is not None:  # segments `[b 1]` would otherwise broadcast over all positions
            for segments, length in ((mask.key_segments, cache["key"].shape[2]), (mask.query_segments, q.shape[2])):
                if segments is not None:
                    chex.assert_shape(segments, (None, length))
        key = self.make_rng("dropout") if train and self.dropout else None
        return self.out(join(self.mix(q, cache, mask=mask, dtype=dtype, key=key)))

    def _check_use(self, mask, *, crossing):
        if crossing and not self.crosses:
            raise self.refuse("it cannot attend to another sequence; set model.cross_attention to one that can")
        if mask is not None and mask.causal and not self.has_causal:
            raise self.refuse("it has no causal form; set model.decoder_attention to one that does")
        if mask is not None and mask.query_segments is not None and not self.keeps_texts_apart:
            raise self.refuse("it mixes the texts of a row; set data.packed to False, so that every row holds one text")


def split(x, heads):
    """`[b t h·k] -> [b h t k]`."""
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(1, 2)


def join(x):
    """`[b h t k] -> [b t h·k]`."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
