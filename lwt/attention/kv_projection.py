"""K/V projection: every head attends in a space of k < d_k dimensions.

Source: "Improving Transformer Efficiency with Key/Value Projection", section "Mathematical Formulation":
``Q' = Q W_q``, ``K' = K W_k``, ``V' = V W_v``, ``O = softmax(Q' K'ᵀ / √k) V' W_o``. It narrows the heads, whereas
Linformer shortens the sequence. The decode cache shrinks by a factor d_k/k.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt import errors, trees
from lwt.attention import softmax
from lwt.layers import linear


class InputProjection(nn.Module):
    """``x W`` (heads of width d_k), then W_q, W_k or W_v per head (width k): `[b t d] -> [b t h·k]`.

    Attributes:
        heads: h; head_width: d_k; rank: k.
        shared: whether all heads share one matrix `[d_k k]`; otherwise each has its own, together `[h·d_k k]`.
        mixing: whether there is a further matrix `[k k]`, which starts as the identity.
    """

    heads: int
    head_width: int
    rank: int
    shared: bool = True
    mixing: bool = False
    use_bias: bool = True
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t n"]:
        full = linear.Linear(self.heads * self.head_width, use_bias=self.use_bias, dtype=self.dtype, name="full")(x)
        y = PerHead(self.heads, self.rank, self.shared, self.dtype, name="rank")(full)
        if self.mixing:
            y = PerHead(self.heads, self.rank, True, self.dtype, init=_identity, name="mixing")(y)
        return y


class OutputProjection(nn.Module):
    """W_o per head (width k to d_k), then heads to width d: `[b t h·k] -> [b t d]`; fields as of `InputProjection`."""

    heads: int
    head_width: int
    width: int
    shared: bool = True
    use_bias: bool = True
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Float[Array, "b t n"]) -> Float[Array, "b t d"]:
        y = PerHead(self.heads, self.head_width, self.shared, self.dtype, name="rank")(x)
        return linear.Linear(self.width, use_bias=self.use_bias, dtype=self.dtype, name="full")(y)


class PerHead(nn.Module):
    """Multiplies each head by a matrix: `[b t h·n] -> [b t h·m]`; the kernel is `[n m]` if shared, else `[h·n m]`."""

    heads: int
    width: int
    shared: bool
    dtype: str
    init: nn.initializers.Initializer = nn.initializers.lecun_normal()

    @nn.compact
    def __call__(self, x):
        n = x.shape[-1] // self.heads
        shape = (n if self.shared else self.heads * n, self.width)
        init = self.init if self.shared else functools.partial(_each, self.init, self.heads)
        kernel = linear.weight(self, "kernel", init=init, shape=shape)
        heads = x.reshape(*x.shape[:-1], self.heads, n)
        if self.shared:
            y = linear.linear(heads, kernel, dtype=self.dtype)
        else:
            each = linear.dense(kernel).reshape(self.heads, n, self.width)
            y = jax.vmap(functools.partial(linear.linear, dtype=self.dtype), in_axes=(-2, 0), out_axes=-2)(heads, each)
        return y.reshape(*x.shape[:-1], -1)


def _each(init, heads, key, shape, dtype=jnp.float32):
    """A matrix `[h·n m]` of `heads` matrices `[n m]`, each started by itself."""
    keys = jax.random.split(key, heads)
    return jnp.concatenate([init(one, (shape[0] // heads, shape[1]), dtype) for one in keys])


def _identity(key, shape, dtype=jnp.float32):
    del key
    return jnp.eye(*shape, dtype=dtype)


class Attention(softmax.Attention):
    """Multi-head attention whose heads attend in k dimensions.

    The folded form multiplies each pair of matrices into one; what is left is `softmax.Attention` with
    ``head_width = rank``. It represents the same functions and is faster, but it is another parametrization and trains
    differently. `fold` converts trained weights of the source's form.

    Attributes:
        rank: k; 0: half of d_k = d/h.
        folded: whether the weights are those of the folded form.
        shared: whether the heads share W_q, W_k, W_v and W_o, as in the source; not of the folded form.
        mixing: whether a learned matrix `[k k]` stands between W_q and the scores, ``Q' M K'ᵀ``; not of the folded one.
        head_width: d_k; 0: d/h.
    """

    rank: int = 0
    folded: bool = False
    shared: bool = True
    mixing: bool = False

    heads_removable = False

    @property
    def full_size(self):
        """The width d_k of a head before its projection."""
        return self.head_width or self.width // self.heads

    @property
    def head_size(self):
        return self.rank or max(1, self.full_size // 2)

    def check(self):
        super().check()
        if self.rank > self.full_size:
            raise self.refuse(f"rank={self.rank} must be at most the head width {self.full_size}, or 0 for half of it")

    def setup(self):
        if self.folded:
            super().setup()
            return
        self.check()
        common = {"shared": self.shared, "use_bias": self.use_bias, "dtype": self.dtype}
        widths = {"head_width": self.full_size, "rank": self.head_size}
        self.query = InputProjection(self.heads, **widths, mixing=self.mixing, **common)
        self.out = OutputProjection(self.heads, self.full_size, self.width, **common)
        self.key = InputProjection(self.key_heads, **widths, **common)
        self.value = InputProjection(self.key_heads, **widths, **common)


def fold(params, *, heads):
    """Converts the tree of a model, or of one attention, to ``Attention(folded=True)``; the function stays the same.

    Raises:
        lwt.errors.ConfigError: there is no K/V projection (of `heads` heads) to fold.
    """
    flat = {name: linear.dense(weight) for name, weight in trees.flatten(params).items()}
    end = "query/rank/kernel"
    stems = [name.removesuffix(end) for name in flat if name == end or name.endswith(f"/{end}")]
    if not stems:
        raise errors.ConfigError(f"found no weights */{end} to fold; is this a kv_projection with folded=False?")
    for stem in stems:
        d_k, rank = flat[f"{stem}query/full/kernel"].shape[1] // heads, flat[f"{stem}{end}"].shape[1]
        for name in ("query", "key", "value"):
            matrix = flat.pop(f"{stem}{name}/rank/kernel").reshape(-1, d_k, rank)  # one for all heads, or one per head
            if (mixing := f"{stem}{name}/mixing/kernel") in flat:
                matrix = matrix @ flat.pop(mixing)
            flat[f"{stem}{name}/kernel"] = _into(flat.pop(f"{stem}{name}/full/kernel"), matrix)
            if (bias := f"{stem}{name}/full/bias") in flat:
                flat[f"{stem}{name}/bias"] = _into(flat.pop(bias)[None], matrix)[0]
        full, matrix = flat.pop(f"{stem}out/full/kernel"), flat.pop(f"{stem}out/rank/kernel")
        blocks = matrix.reshape(-1, rank, d_k) @ full.reshape(heads, d_k, -1)
        flat[f"{stem}out/kernel"] = blocks.reshape(heads * rank, -1)
        if (bias := f"{stem}out/full/bias") in flat:
            flat[f"{stem}out/bias"] = flat.pop(bias)
    return trees.unflatten(flat)


def _into(full, matrix):
    """``W W_q`` per head: `[d h·d_k]` and `[1|h d_k k] -> [d h·k]`."""
    blocks = full.reshape(len(full), -1, matrix.shape[1]).swapaxes(0, 1) @ matrix
    return blocks.swapaxes(0, 1).reshape(len(full), -1)


def break_even(head_width, rank):
    """The length n beyond which the source's form, 4n²k + 8n·d_k·k operations a head, costs less than 4n²·d_k."""
    return 2 * head_width * rank / (head_width - rank)
