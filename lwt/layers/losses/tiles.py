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
MOST = 32  # tiles, since each is compiled on its own


class Table(typing.NamedTuple):
    """A table `[v d]` in tiles: tuples of rows `[u d]`, of columns `[d u]` or None, of biases `[u]` or None."""

    rows: tuple
    columns: tuple | None
    bias: tuple | None


def cut(table, bias, *, positions, dtype, columns):
    """`Table` of ``table [v d]`` and ``bias [v]`` (or None) for walks over n = `positions`, with `columns` or not.

    The tiles are arrays of their own, so that no part is copied out of the whole when it is read or added to. All have
    the same number of entries, but the last may have fewer.
    """
    rows = parts(products.rounded(table, dtype, once=True), positions=positions)
    barrier = jax.lax.optimization_barrier
    return Table(
        tuple(barrier(rows)),
        tuple(barrier([part.T for part in rows])) if columns else None,
        None if bias is None else tuple(parts(bias, positions=positions)),
    )


def parts(array, *, positions):
    """Cuts an array `[v ...]` into the parts `[u ...]` of at most `MOST` tiles, of about `SIZE` or `LARGE` logits each.

    u is a multiple of 64, since products are slow at odd sizes.
    """
    most = SIZE if jax.default_backend() == "cpu" else LARGE
    count = min(-(-len(array) // max(most // positions, 1)), MOST)
    size = -(-len(array) // count // 64) * 64
    return [array[start : start + size] for start in range(0, len(array), size)]


class Sums(typing.NamedTuple):
    """What a walk over the vocabulary finds at n positions: all are `[n]` except the last two.

    Attributes:
        top: the largest logit.
        total: the sum of the exponentials of the logits minus `top`.
        at_target: the logit of the target.
        mean_row: `[d n]`, the sum of the table's rows, weighted by those exponentials; None without columns.
        kept: for `add_gradients`: for each tile the exponentials `[u n]` and what was subtracted from the logits `[n]`;
            or None.
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
    n, d = hidden.shape
    hidden = products.rounded(hidden, dtype)
    top, total, at_target, mean_row = jnp.full(n, -jnp.inf), jnp.zeros(n), jnp.zeros(n), jnp.zeros((d, n))
    start, kept = 0, []
    for number, rows in enumerate(table.rows):
        z = jax.lax.dot_general(rows, hidden, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        z = z if table.bias is None else z + table.bias[number][:, None]
        inside = (targets >= start) & (targets < start + len(rows))
        own = jnp.take_along_axis(z, jnp.clip(targets - start, 0, len(rows) - 1)[None], 0)[0]
        at_target = jnp.where(inside, own, at_target)
        new = jnp.maximum(top, z.max(0))
        factor, exponentials = jnp.exp(top - new), jnp.exp(z - new)
        total = total * factor + exponentials.sum(0)
        operand = products.rounded(exponentials, dtype, once=True)
        if table.columns is not None:
            part = jnp.dot(table.columns[number], operand, preferred_element_type=jnp.float32)
            mean_row = mean_row * factor + part
        kept.append((exponentials if keep == "float32" else operand, new))
        # The next tile waits for this one, so that the logits of one tile exist at a time.
        hidden, total = jax.lax.optimization_barrier((hidden, total))
        top, start = new, start + len(rows)
    return Sums(top, total, at_target, mean_row if table.columns else None, tuple(kept) if keep else None)


def add_gradients(gradients, sums, *, hidden, weights, dtype):
    """Adds ``Σ_n weights[n] exp(logits[:, n] - top[n]) hidden[n]`` and, for the bias, the same without `hidden`.

    Args:
        gradients: ``(of the table, of the bias)``, tuples of the tiles' parts `[u d]` and `[u]`, either may be None;
            the bias needs float32 in `kept`.
    """
    of_table, of_bias = gradients
    factors = [jnp.exp(subtracted - sums.top) * weights for _, subtracted in sums.kept]
    if of_table is not None:
        of_table = tuple(
            old + _product(exponentials, hidden * factor[:, None], dtype)
            for old, (exponentials, _), factor in zip(of_table, sums.kept, factors, strict=True)
        )
    if of_bias is not None:
        of_bias = tuple(
            old + (exponentials * factor).sum(1)
            for old, (exponentials, _), factor in zip(of_bias, sums.kept, factors, strict=True)
        )
    return of_table, of_bias


def _product(x, y, dtype):
    x, y = (products.rounded(operand, dtype) for operand in (x, y))
    return jnp.dot(x, y, preferred_element_type=jnp.float32)
