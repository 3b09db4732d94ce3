"""What lies between the projections of an attention: ``softmax(Q Kᵀ) V``, forward and backward."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from lwt.layers import dropout, layout

BLOCKED = -1e9  # finite, so that a row with nothing to see gives an average and no NaN; its output is never used
LONG = 512  # keys from which on a transposition is worth avoiding (measured on 2 cores; at 256 it is a draw)


def attend(
    q: Float[Array, "b h t k"],
    k: Float[Array, "b h s k"],
    v: Float[Array, "b h s v"],
    mask: Bool[Array, "#b #h #t s"] | None = None,
    *,
    key=None,
    rate=0.0,
    dtype="float32",
) -> Float[Array, "b h t v"]:
    """``softmax(q kᵀ) v``, with the products' operands in `dtype`, forward and backward; sums are float32.

    The backward pass makes the weights `[b h t s]` anew, so that none are kept between the passes, and needs only one
    sum over them: ``Σ_s p dp`` is the product of the output with its own gradient (Dao et al. 2022, appendix B.2).

    Args:
        q: queries, scaled.
        k: keys.
        v: values; may be the keys themselves.
        mask: True where attention is allowed, or None.
        key: random key of dropout on the weights; None for none.
        rate: of that dropout.
        dtype: "float32" or "bfloat16".
    """
    keep = keep_mask(key, rate, (*q.shape[:3], k.shape[2]))
    return _attend(q, k, v, mask, keep, rate, jnp.dtype(dtype).name)


def attend_with_total(q, k, v, mask=None, *, key=None, rate=0.0, dtype="float32"):
    """As `attend`, with the logarithms of the sums that normalised the weights: ``([b h t v], [b h t 1])``.

    Two results over different keys, each weighed by the exponential of its total, are attention over all of them.
    """
    keep = keep_mask(key, rate, (*q.shape[:3], k.shape[2]))
    return _attend_with_total(q, k, v, mask, keep, rate, jnp.dtype(dtype).name)


def keep_mask(key, rate, shape):
    """The weights that dropout keeps, True in an array of that shape; None without a key or without dropout."""
    dropping = key is not None and dropout.kept_of_256(rate) < 256
    return dropout.keep_mask(key, rate, shape) if dropping else None


def drop_values(v: Float[Array, "b h s v"], key, rate):
    """Dropout for attentions that have no weights to drop: of whole values, the same for all queries of a head."""
    return _drop(v, keep_mask(key, rate, (*v.shape[:3], 1)), rate)


def forward(q, k, v, mask, keep, rate, dtype):
    """The output `[b h t v]`, from arrays (or None) `mask` and `keep`."""
    weights = _drop(_weights(q, k, mask, dtype), keep, rate)
    return _product(weights.astype(dtype), v.astype(dtype), 2)


def forward_with_total(q, k, v, mask, keep, rate, dtype):
    """``(output [b h t v], total [b h t 1])``: see `forward` and `attend_with_total`."""
    scores = _scores(q, k, mask, dtype)
    largest = scores.max(-1, keepdims=True)
    weights = jnp.exp(scores - largest)
    norm = weights.sum(-1, keepdims=True)
    output = _product(_drop(weights, keep, rate).astype(dtype), v.astype(dtype), 2) / norm
    return output, largest + jnp.log(norm)


def backward(q, k, v, mask, keep, output, d_output, rate, dtype, total=None, d_total=None):
    """``(d_q, d_k, d_v)`` from the output and its gradient; from the total, if it was kept, and its gradient, if it
    has one."""
    weights = _weights(q, k, mask, dtype) if total is None else jnp.exp(_scores(q, k, mask, dtype) - total)
    q, k, v, d_operand = (x.astype(dtype) for x in (q, k, v, d_output))
    d_weights = _drop(_product(d_operand, v, 3), keep, rate)
    common = (output * d_output).sum(-1, keepdims=True)
    d_scores = weights * (d_weights - (common if d_total is None else common - d_total))
    d_scores, weights = d_scores.astype(dtype), _drop(weights, keep, rate).astype(dtype)
    d_q = _product(d_scores, k, 2)
    d_k = _transposed_product(d_scores, q)
    d_v = _transposed_product(weights, d_operand)
    return d_q, d_k, d_v


_attend = jax.custom_vjp(forward, nondiff_argnums=(5, 6))


def _saving_forward(q, k, v, mask, keep, rate, dtype):
    output = _attend(q, k, v, mask, keep, rate, dtype)
    return output, (q, k, v, mask, keep, output)


def _backward(rate, dtype, saved, d_output):
    return *backward(*saved, d_output, rate, dtype), None, None


_attend.defvjp(_saving_forward, _backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _attend_with_total(q, k, v, mask, keep, rate, dtype):
    return forward_with_total(q, k, v, mask, keep, rate, dtype)


def _saving_forward_with_total(q, k, v, mask, keep, rate, dtype):
    output, total = _attend_with_total(q, k, v, mask, keep, rate, dtype)
    return (output, total), (q, k, v, mask, keep, output, total)


def _backward_with_total(rate, dtype, saved, d_results):
    *saved, total = saved
    d_output, d_total = d_results
    return *backward(*saved, d_output, rate, dtype, total, d_total), None, None


_attend_with_total.defvjp(_saving_forward_with_total, _backward_with_total)


def _scores(q, k, mask, dtype):
    scores = _product(q.astype(dtype), k.astype(dtype), 3)
    return scores if mask is None else jnp.where(mask, scores, BLOCKED)


def _weights(q, k, mask, dtype):
    return jax.nn.softmax(_scores(q, k, mask, dtype))


def _drop(x, keep, rate):
    return x if keep is None else jnp.where(keep, x * (256 / dropout.kept_of_256(rate)), 0)


def _product(x, y, axis):
    """The sum over the last axis of x and `axis` of y, both `[b h n m]`: rows and heads as one axis, since XLA's CPU
    backend has fast bfloat16 code for products of three axes only."""
    b, h = x.shape[:2]
    x, y = (a.reshape(-1, *a.shape[2:]) for a in (x, y))
    z = jax.lax.dot_general(x, y, (((2,), (axis - 1,)), ((0,), (0,))), preferred_element_type=jnp.float32)
    return z.reshape(b, h, *z.shape[1:])


def _transposed_product(x, y):
    """The sum over the third axis of both: ``xᵀ y``, `[b h t s]` and `[b h t k] -> [b h s k]`.

    On a CPU a float32 product of a large array that is transposed takes 2 to 3 times as long. As ``(yᵀ x)ᵀ`` only the
    small arrays are transposed; the barriers keep the compiler from turning it back.
    """
    if x.dtype == jnp.bfloat16:
        return _product(layout.transposed(x), y, 2)
    if x.shape[3] < LONG:
        return _plain_product(x, y)
    return jax.lax.platform_dependent(x, y, cpu=_swapped_product, default=_plain_product)


def _plain_product(x, y):
    return _product(jnp.swapaxes(x, 2, 3), y, 2)


def _swapped_product(x, y):
    small = jax.lax.optimization_barrier(jnp.swapaxes(y, 2, 3))
    return jnp.swapaxes(jax.lax.optimization_barrier(_product(small, x, 2)), 2, 3)
