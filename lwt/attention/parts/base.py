"""What the attentions share: the projections, the heads, the cache, and what they refuse."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors
from lwt.attention.parts import blockwise, core, masks
from lwt.layers import linear

WHOLE = 2**27  # weights of all rows and heads that are made at once; larger arrays take memory, and time to get it
PART = 2**24  # ... and if there are more, so many of a block of queries
# On a CPU, narrow heads over many keys, of whose time the products are the smaller part, come one after the other, in
# blocks of so many weights (times the head's width) that its cache holds them (measured: docs/design/speed.md).
NARROW, LONG, CACHED = 32, 1024, 2**16


class Base(nn.Module):
    """Queries, keys and values in h heads, something between them, and a projection of the heads' outputs.

    A variant overrides `mix`, which every use of the whole sequence goes through. One whose decoding is not softmax
    attention over all that came before also overrides `empty_cache`, `extend` and `recall`.

    Attributes:
        width: the model width d.
        heads: h; has to divide d. The head width is k = d/h.
        dropout: rate on the attention weights.
        use_bias: whether the projections have biases.
        dtype: operands of the products.
    """

    width: int
    heads: int
    dropout: float = 0.0
    use_bias: bool = True
    dtype: str = "float32"

    # What a variant can do. No annotations: these are no fields.
    crosses = True  # attend to another sequence
    has_causal = True  # see only what came before
    keeps_texts_apart = True  # of several texts in a row, see only one's own
    loses_heads = False  # be made with fewer heads, of the width that the others have
    block = 0  # queries that `mix` handles at once; 0: all, unless that is too much

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
        """The projections' names and output widths."""
        keys = self.key_heads * self.head_size
        return {"query": self.heads * self.head_size, "key": keys, "value": keys, "out": self.width}

    def check(self):
        """Refuses fields that do not fit together."""
        if self.heads < 1 or self.width % self.heads:
            raise self.refuse(f"heads={self.heads} should be a divisor of the width {self.width}")

    def refuse(self, why):
        """An error that names the variant."""
        return errors.ConfigError(f"attention {type(self).__module__.rpartition('.')[2]!r}: {why}")

    def queries(self, x: Float[Array, "b t d"]) -> Float[Array, "b h t k"]:
        """Queries of all heads, scaled by 1/√k."""
        return split(self.query(x), self.heads) * self.head_size**-0.5

    def project(self, context: Float[Array, "b s d"]):
        """Keys and values `[b h s k]` of a context `[b s d]`, as the cache of calls that all attend to it.

        Heads come before positions: a step of decoding then reads each head's keys in one stretch, which was
        faster than the other order in a comparison on a busy CPU.
        """
        return {name: split(getattr(self, name)(context), self.key_heads) for name in ("key", "value")}

    def empty_cache(self, batch, length):
        """A cache for `length` steps of decoding; the batch is the first axis of its arrays."""
        zeros = jnp.zeros((batch, self.key_heads, length, self.head_size))
        return {"key": zeros, "value": zeros}

    def extend(self, cache, new, index):
        """The cache with the keys and values `new` of position `index`."""
        return {name: jax.lax.dynamic_update_slice_in_dim(cache[name], new[name], index, axis=2) for name in new}

    def recall(self, q, cache, index):
        """What query `[b h 1 k]` of position `index` reads from a cache that already holds its own key: `[b h 1 k]`."""
        seen = (jnp.arange(cache["key"].shape[2]) <= index)[None, None, None, :]
        return self.weigh(q, cache, seen, dtype="float32")

    def mix(self, q, cache, mask, *, dtype, key=None):
        """What lies between the projections: `[b h t k]`; softmax attention, some queries at a time where that is
        faster, or the weights of all would be more than `WHOLE`.

        Args:
            q: queries `[b h t k]`, scaled.
            cache: keys and values as from `project`.
            mask: a `masks.Mask`, or None.
            dtype: operands of the products.
            key: random key of dropout, or None.
        """
        (_, h, t, _), s = q.shape, cache["key"].shape[2]
        block, apart = self._blocks(*q.shape, s)
        if t > block or apart:
            values = cache.get("value", cache["key"])
            k, v = (jnp.repeat(x, h // self.key_heads, axis=1) for x in (cache["key"], values))
            settings = dict(block=block, apart=apart, key=key, rate=self.dropout, dtype=dtype)
            return blockwise.attention(q, k, v, mask, **settings)
        allowed = None if mask is None else mask.array(t, s)
        return self.weigh(q, cache, allowed, dtype=dtype, key=key)

    def _blocks(self, b, h, t, k, s):
        """``(queries, apart)``: how many queries `mix` handles at once, and whether one head after the other."""
        fits = b * h * t * s <= WHOLE
        if self.block:
            return self.block, False
        if jax.default_backend() == "cpu" and (not fits or (k <= NARROW and s >= LONG)):
            return max(1, CACHED * k // (b * s)), True
        return (t if fits else max(1, PART // (b * h * s))), False

    def weigh(self, q, cache, allowed, *, dtype, key=None):
        """Softmax attention, given its mask as an array."""
        values = cache.get("value", cache["key"])  # no values: see efficient.py
        return core.attend(q, cache["key"], values, allowed, key=key, rate=self.dropout, dtype=dtype)

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
        """Attends from x to the context (to x itself without one).

        Args:
            x: `[b t d]`.
            context: `[b s d]`, or None.
            mask: what may be seen, or None for all of it.
            train: whether dropout acts.
            cache: from `project` (used as it is), or, with an `index`, from `empty_cache`.
            index: the position of x `[b 1 d]` in decoding: it sees itself and those before it, and takes no mask.

        Returns:
            `[b t d]`; with an index, ``(output, new cache)``.

        Raises:
            lwt.errors.ConfigError: the variant cannot do what is asked of it.
        """
        q = self.queries(x)
        if index is not None:
            cache = self.extend(cache, self.project(x), index)
            return self.out(join(self.recall(q, cache, index))), cache
        self._check_use(mask, crossing=context is not None or cache is not None)
        dtype = self.dtype if cache is None else "float32"  # decoding: products of vectors gain nothing
        if cache is None:
            cache = self.project(x if context is None else context)
        key = self.make_rng("dropout") if train and self.dropout else None
        return self.out(join(self.mix(q, cache, mask, dtype=dtype, key=key)))

    def _check_use(self, mask, *, crossing):
        if crossing and not self.crosses:
            raise self.refuse("it cannot attend to another sequence; model.cross_attention should name another one")
        if mask is not None and mask.causal and not self.has_causal:
            raise self.refuse("it has no causal form; model.decoder_attention should name one that has")
        if mask is not None and mask.query_segments is not None and not self.keeps_texts_apart:
            raise self.refuse("it mixes the texts of a row; data.packed should be False, so that every row holds one")


def split(x, heads):
    """`[b t h·k] -> [b h t k]`."""
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(1, 2)


def join(x):
    """`[b h t k] -> [b t h·k]`."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
