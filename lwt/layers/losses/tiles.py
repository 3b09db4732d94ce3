"""The softmax over a vocabulary in tiles: logits `[u n]` of u entries at n positions exist at a time.

On a CPU a tile stays in the cache. On an accelerator it is large, since each kernel takes microseconds to start.

The exponentials of a tile are those of the logits minus the largest one so far (Milakov and Gimelshein 2018, "Online
normalizer calculation for softmax"; Dao et al. 2022, section 3.1). The sums over the vocabulary are corrected when a
larger one is found. The gradient of the table is a sum over positions, so it needs the final sums: the exponentials
are kept for it, in the products' dtype, and the correction is a factor on the hidden states.
"""

import typing

import jax
import jax.numpy as jnp

from lwt.layers import products

SIZE, LARGE = 2**21, 2**25  # most logits of a tile, on a CPU and on an accelerator
NEVER = -1e30  # the bias of entries that fill up the last tile


class Table(typing.NamedTuple):
    """A table `[v d]` in j tiles of u entries: rows `[j u d]`, columns `[j d u]` or None, bias `[j u]` or None."""

    rows: jax.Array
    columns: jax.Array | None
    bias: jax.Array | None


def cut(table, bias, *, positions, dtype, columns):
    """`Table` of ``table [v d]`` and ``bias [v]`` (or None) for walks over n = `positions`, with `columns` or not.

    u is the largest divisor of v that fits `SIZE` or `LARGE`; a vocabulary without a large divisor is filled up.
    """
    v, d = table.shape
    most = SIZE if jax.default_backend() == "cpu" else LARGE
    limit = min(v, max(most // positions, 1))
    size = max(n for n in range(1, limit + 1) if v % n == 0)
    if size < limit // 4:
        size = -(-v // -(-v // limit))
        filler = -v % size
        table = jnp.pad(table, ((0, filler), (0, 0)))
        bias = jnp.pad(jnp.zeros(v) if bias is None else bias, (0, filler), constant_values=NEVER)
    rows = products.rounded(table, dtype, once=True).reshape(-1, size, d)
    barrier = jax.lax.optimization_barrier
    return Table(
        barrier(_stored(rows)),
        barrier(_stored(jnp.swapaxes(rows, 1, 2))) if columns else None,
        None if bias is None else bias.reshape(-1, size),
    )


class Sums(typing.NamedTuple):
    """What a walk over the vocabulary finds at n positions: all are `[n]` except the last two.

    Attributes:
        top: the largest logit.
        total: the sum of the exponentials of the logits minus `top`.
        at_target: the logit of the target.
        mean_row: `[d n]`, the sum of the table's rows, weighted by those exponentials; None without columns.
        kept: for `add_gradients`: the exponentials `[j u n]` and what was subtracted from the logits `[j n]`; or None.
    """

    top: jax.Array
    total: jax.Array
    at_target: jax.Array
    mean_row: jax.Array | None
    kept: tuple | None


def walk(table, hidden, *, targets, dtype, keep):
    """`Sums` at hidden states `[n d]` with targets `[n]`.

    Args:
        keep: the dtype in which exponentials are kept for `add_gradients`; None: they are not kept.
    """
    n, (_, size, d) = len(hidden), table.rows.shape
    hidden = products.rounded(hidden, dtype)

    def tile(carry, item):
        top, total, at_target, mean_row = carry
        start, (rows, columns, bias) = item
        z = jax.lax.dot_general(_loaded(rows), hidden, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        z = z if bias is None else z + bias[:, None]
        inside = (targets >= start) & (targets < start + size)
        own = jnp.take_along_axis(z, jnp.clip(targets - start, 0, size - 1)[None], 0)[0]
        new = jnp.maximum(top, z.max(0))
        factor, exponentials = jnp.exp(top - new), jnp.exp(z - new)
        total = total * factor + exponentials.sum(0)
        operand = products.rounded(exponentials, dtype, once=True)
        if columns is not None:
            part = jnp.dot(_loaded(columns), operand, preferred_element_type=jnp.float32)
            mean_row = mean_row * factor + part
        kept = exponentials if keep == "float32" else _stored(operand)
        return (new, total, jnp.where(inside, own, at_target), mean_row), (kept, new) if keep else None

    zeros = jnp.zeros(n)
    start = jnp.full(n, -jnp.inf), zeros, zeros, None if table.columns is None else jnp.zeros((d, n))
    sums, kept = jax.lax.scan(tile, start, (jnp.arange(len(table.rows)) * size, table))
    return Sums(*sums, kept)


def add_gradients(gradients, sums, *, hidden, weights, dtype):
    """Adds ``Σ_n weights[n] exp(logits[:, n] - top[n]) hidden[n]`` and, for the bias, the same without `hidden`.

    Args:
        gradients: ``(of the table [j u d], of the bias [j u])``, either may be None; the bias needs float32 in `kept`.
    """

    def tile(gradients, item):
        index, exponentials, subtracted = item
        factor = jnp.exp(subtracted - sums.top) * weights
        of_table, of_bias = gradients
        if of_table is not None:
            operand, scaled = (products.rounded(x, dtype) for x in (_loaded(exponentials), hidden * factor[:, None]))
            of_table = _add(of_table, jnp.dot(operand, scaled, preferred_element_type=jnp.float32), index)
        if of_bias is not None:
            of_bias = _add(of_bias, (exponentials * factor).sum(1), index)
        return (of_table, of_bias), None

    return jax.lax.scan(tile, gradients, (jnp.arange(len(sums.kept[1])), *sums.kept))[0]


def _add(whole, part, index):
    old = jax.lax.dynamic_index_in_dim(whole, index, keepdims=False)
    return jax.lax.dynamic_update_index_in_dim(whole, old + part, index, 0)


def _stored(x):
    """bfloat16 as integers: to read or set a part, XLA's CPU backend converts a whole bfloat16 array to float32."""
    return jax.lax.bitcast_convert_type(x, jnp.uint16) if x.dtype == jnp.bfloat16 else x


def _loaded(x):
    return jax.lax.bitcast_convert_type(x, jnp.bfloat16) if x.dtype == jnp.uint16 else x
