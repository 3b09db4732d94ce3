"""The core of softmax attention, ``softmax(Q Kᵀ) V``, with its own backward pass."""

import functools

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.layers import dropout, products

BLOCKED = -1e9  # finite, so that a query that sees nothing gives an average and not NaN; its output is never used


def attend(
    q: Float[Array, "b h t k"],
    k: Float[Array, "b h s k"],
    *,
    v: Float[Array, "b h s v"],
    mask: Bool[Array, "#b #h #t s"] | None = None,
    key=None,
    rate=0.0,
    dtype="float32",
) -> Float[Array, "b h t v"]:
    """``softmax(q kᵀ) v``; the operands of all products, forward and backward, are in `dtype`, sums in float32.

    Of all arrays `[b h t s]`, the passes share one, the weights before their normalization, in `dtype`. The backward
    pass needs only one sum over them: ``Σ_s p dp`` is the product of the output with its own gradient (Dao et al. 2022,
    appendix B.2).

    Args:
        q: queries, scaled.
        v: values; may be the keys themselves.
        mask: True where attention is allowed, or None.
        key: random key of dropout on the weights; None: no dropout.
        dtype: "float32" or "bfloat16".
    """
    return attend_with_total(q, k, v=v, mask=mask, key=key, rate=rate, dtype=dtype)[0]


def attend_with_total(q, k, *, v, mask=None, key=None, rate=0.0, dtype="float32"):
    """As `attend`, with the logarithms of the sums that normalised the weights: ``([b h t v], [b h t 1])``.

    Two results over different keys, each weighted by the exponential of its total, add up to attention over all keys.
    """
    chex.assert_rank([q, k, v], 4)
    chex.assert_equal_shape_prefix([q, k, v], 2)
    if mask is not None:  # `[b h t 1]` would otherwise broadcast over the keys
        chex.assert_axis_dimension(mask, 3, k.shape[2])
    keep = keep_mask(key, rate, shape=(*q.shape[:3], k.shape[2]))
    return _attend_with_total(q, k, v, mask, keep, rate, jnp.dtype(dtype).name)


def keep_mask(key, rate, *, shape):
    """Which weights dropout keeps, a boolean array of that shape; None without a key or with a rate of 0."""
    dropping = key is not None and dropout.kept_of_256(rate) < 256
    return dropout.keep_mask(key, rate, shape=shape) if dropping else None


def drop_values(v: Float[Array, "b h s v"], key, *, rate):
    """Dropout of whole values, the same for all queries of a head: for attentions that have no weights to drop."""
    return _drop(v, keep_mask(key, rate, shape=(*v.shape[:3], 1)), rate)


def forward(q, k, *, v, mask, keep, rate, dtype):
    """``(output [b h t v], total [b h t 1])`` of `attend_with_total`, and ``(weights [b h t s], norm [b h t 1])``.

    `mask` and `keep` are arrays or None. The weights are those of `weigh` with each row's largest score, and `norm` are
    their sums.
    """
    scores = _scores(q, k, mask, dtype)
    largest = scores.max(-1, keepdims=True)
    weights = _exponentials(scores, largest, dtype)
    norm = weights.astype(jnp.float32).sum(-1, keepdims=True)
    output = _product(_operand(weights, keep, rate, dtype), products.rounded(v, dtype), 2) / norm
    return (output, largest + jnp.log(norm)), (weights, norm)


def weigh(q, k, *, mask, total, dtype):
    """The weights ``exp(q kᵀ - total)``, rounded to `dtype`."""
    return _exponentials(_scores(q, k, mask, dtype), total, dtype)


def backward(q, k, *, v, keep, weights, norm, output, d_output, d_total=None, rate, dtype):
    """``(d_q, d_k, d_v)`` from the output, the weights, their sums and the gradients of both results."""
    weights, d_output = jax.lax.optimization_barrier((weights, d_output))  # nothing of this belongs to the forward pass
    common = (output.astype(d_output.dtype) * d_output).sum(-1, keepdims=True)
    common = common if d_total is None else common - d_total
    q, k, v, d_operand = (products.rounded(x, dtype) for x in (q, k, v, d_output / norm))
    d_weights = _drop(_product(d_operand, v, 3), keep, rate)
    d_scores = weights.astype(jnp.float32) * (d_weights - common / norm)
    d_scores = products.operand(d_scores, dtype)  # XLA rounds it as it computes the product
    d_q = _product(d_scores, k, 2)
    d_k = _by_heads(products.product_over_rows, d_scores, q)
    d_v = _by_heads(products.product_over_rows, _operand(weights, keep, rate, dtype), d_operand)
    return d_q, d_k, d_v


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _attend_with_total(q, k, v, mask, keep, rate, dtype):
    return forward(q, k, v=v, mask=mask, keep=keep, rate=rate, dtype=dtype)[0]


def _saving_forward(q, k, v, mask, keep, rate, dtype):
    results, (weights, norm) = forward(q, k, v=v, mask=mask, keep=keep, rate=rate, dtype=dtype)
    output = jax.lax.optimization_barrier(products.rounded(results[0], dtype))  # kept in place of float32
    return results, dict(q=q, k=k, v=v, keep=keep, weights=weights, norm=norm, output=output)


def _backward(rate, dtype, saved, d_results):
    d_output, d_total = d_results
    return *backward(**saved, d_output=d_output, d_total=d_total, rate=rate, dtype=dtype), None, None


_attend_with_total.defvjp(_saving_forward, _backward)


def _scores(q, k, mask, dtype):
    scores = _product(products.rounded(q, dtype), products.rounded(k, dtype), 3)
    return scores if mask is None else jnp.where(mask, scores, BLOCKED)


def _exponentials(scores, shift, dtype):
    """``exp(scores - shift)``, rounded. The barrier makes XLA store this, and not what it is computed from as well."""
    return jax.lax.optimization_barrier(products.rounded(jnp.exp(scores - shift), dtype))


def _operand(weights, keep, rate, dtype):
    """The weights that dropout leaves, rounded again: it scales them."""
    return weights if keep is None else products.rounded(_drop(weights.astype(jnp.float32), keep, rate), dtype)


def _drop(x, keep, rate):
    return x if keep is None else jnp.where(keep, x * (256 / dropout.kept_of_256(rate)), 0)


def _product(x, y, axis):
    """Sums over the last axis of x and `axis` of y, both `[b h n m]`."""
    contracted = ((2,), (axis - 1,)), ((0,), (0,))
    return _by_heads(lambda x, y: jax.lax.dot_general(x, y, contracted, preferred_element_type=jnp.float32), x, y)


def _by_heads(product, x, y):
    """Applies `product` with batch and heads as one axis: on CPUs, XLA's fast bfloat16 code takes three axes only."""
    b, h = x.shape[:2]
    z = product(*(a.reshape(-1, *a.shape[2:]) for a in (x, y)))
    return z.reshape(b, h, *z.shape[1:])
