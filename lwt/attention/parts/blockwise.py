"""Exact softmax attention without an array `[t s]`: a block of queries at a time, with all keys.

After Rabe and Staats 2021 ("Self-attention does not need O(n²) memory"), with one level of blocks: memory grows with n
and not with n². The backward pass recomputes each block's weights from the sums that normalised them.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lwt.attention.parts import core, masks
from lwt.layers import blocks


def attention(
    q: Float[Array, "b h t k"],
    k: Float[Array, "b h s k"],
    *,
    v: Float[Array, "b h s v"],
    mask: masks.Mask | None = None,
    block: int,
    apart: bool = False,
    key=None,
    rate=0.0,
    dtype="float32",
) -> Float[Array, "b h t v"]:
    """``softmax(q kᵀ) v``, equal to `core.attend` (with other random numbers for dropout).

    Args:
        q: queries, scaled.
        mask: what each query may see; None: everything.
        block: most queries handled at once.
        apart: whether heads are handled one after the other.
        key, rate, dtype: see `core.attend`.
    """
    if blocks.is_exporting():  # files for phones may hold no loops
        allowed = None if mask is None else mask.array(q.shape[2], k.shape[2])
        return core.attend(q, k, v=v, mask=allowed, key=key, rate=rate, dtype=dtype)
    if apart:
        return _head_by_head(q, k, v, key, mask=mask, block=block, rate=rate, dtype=dtype)
    t = q.shape[2]
    count = -(-t // block)
    size = -(-t // count)  # equal blocks need the least padding
    padded = jnp.pad(q, ((0, 0), (0, 0), (0, count * size - t), (0, 0)))
    return _attention(_cut(padded, count), k, v, mask, key, rate, jnp.dtype(dtype).name)[:, :, :t]


def _head_by_head(q, k, v, key, **settings):
    def one(item):
        number, *head = item
        own = None if key is None else jax.random.fold_in(key, number)
        q, k, v = (x[:, None] for x in head)
        return attention(q, k, v=v, key=own, **settings)[:, 0]

    heads_first = (jnp.moveaxis(x, 1, 0) for x in (q, k, v))
    return jnp.moveaxis(jax.lax.map(one, (jnp.arange(q.shape[1]), *heads_first)), 0, 1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _attention(q, k, v, mask, key, rate, dtype):
    return _forward(q, k, v, mask, key, rate, dtype)[0]


def _forward(q, k, v, mask, key, rate, dtype):
    def one(item):
        number, q = item
        allowed, keep = _of_block(number, q, k, mask, key, rate)
        return core.forward(q, k, v=v, mask=allowed, keep=keep, rate=rate, dtype=dtype)[0]

    outputs, totals = jax.lax.map(one, (jnp.arange(len(q)), q))
    return _paste(outputs), (q, k, v, mask, key, outputs, totals)


def _backward(rate, dtype, saved, d_output):
    q, k, v, mask, key, outputs, totals = saved

    def one(sums, item):
        number, q, output, total, d_output = item
        allowed, keep = _of_block(number, q, k, mask, key, rate)
        weights = core.weigh(q, k, mask=allowed, total=total, dtype=dtype)
        given = {"keep": keep, "weights": weights, "norm": 1.0, "output": output, "rate": rate, "dtype": dtype}
        d_q, d_k, d_v = core.backward(q, k, v=v, d_output=d_output, **given)
        return (sums[0] + d_k, sums[1] + d_v), d_q

    items = jnp.arange(len(q)), q, outputs, totals, _cut(d_output, len(q))
    (d_k, d_v), d_q = jax.lax.scan(one, (jnp.zeros_like(k), jnp.zeros_like(v)), items)
    return d_q, d_k, d_v, None, None


_attention.defvjp(_forward, _backward)


def _of_block(number, q, k, mask, key, rate):
    """The mask and the dropout mask of a block of queries, as arrays or None."""
    t, s = q.shape[2], k.shape[2]
    allowed = None if mask is None else mask.array(t, s, start=number * t)
    key = None if key is None else jax.random.fold_in(key, number)
    return allowed, core.keep_mask(key, rate, shape=(*q.shape[:3], s))


def _cut(x, count):
    """`[b h t k] -> [count b h c k]`."""
    return jnp.moveaxis(x.reshape(*x.shape[:2], count, -1, x.shape[-1]), 2, 0)


def _paste(x):
    """`[count b h c k] -> [b h t k]`."""
    x = jnp.moveaxis(x, 0, 2)
    return x.reshape(*x.shape[:2], -1, x.shape[-1])
