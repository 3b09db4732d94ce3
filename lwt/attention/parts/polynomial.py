"""Attention by polynomial features: ``exp(q·k)`` as its Taylor polynomial, without an array `[t s]` in either pass.

The features of degree g are all monomials of degree ≤ g, weighted so that ``φ(q)·φ(k) = Σ_{i≤g} (q·k)^i / i!``; there
are m = C(k+g, g) of them. The matrix of softmax is then ``P ≈ D⁻¹ φ(Q) φ(K)ᵀ``, of rank m, a good approximation while
the logits are small (Alman and Song 2023, "Fast Attention Requires Bounded Entries"; Hu et al. 2024, "Computational
Limits of Low-Rank Adaptation (LoRA) for Transformer-Based Models"). `approximation_check.py` measures whether it holds.

The gradient is that of softmax attention, with this P instead of softmax's:

    dV = Pᵀ dO        dS = P ∘ (dO Vᵀ − δ 1ᵀ)        dQ = dS K        dK = dSᵀ Q

The matrix in brackets is also a product, of ``[dO, −δ]`` and ``[V, 1]``, and the entry-wise product of two products is
a product of row-wise Kronecker products: a row of ``dS K`` is what the query's features read from the sum over the keys
of ``φ(k_j) ⊗ [v_j, 1] ⊗ k_j``, weighted by its ``[dO, −δ]``. Time is ``O(n m k²)``.

δ is the row sum of ``dO ∘ O`` with the O of the same P, even if the forward pass is exact: the rows of dS then sum to
zero, as those of softmax do. It is not the gradient of attention with this P, which would be one degree worse: the
derivative of a polynomial of degree g has degree g−1.

Arrays of one head have positions on the last axis, in chunks: `[chunks k c]`.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lwt.attention.parts import blockwise, masks
from lwt.layers import products

AT_ONCE = 2**24  # most numbers held for the heads that are handled together


def count(width, degree):
    """The number of features of a vector of that width: m = C(width + degree, degree)."""
    return math.comb(width + degree, degree)


def truncated_exp(x, degree):
    """``Σ_{i≤degree} x^i / i!``, entry by entry."""
    total = 1 + x / degree
    for i in range(degree - 1, 0, -1):
        total = 1 + total * x / i
    return total


def ratio(x, total):
    """``x / total``; 0 where the total is not positive: nothing to see or, at an odd degree, logits too large."""
    return jnp.where(total > 0, x / jnp.where(total > 0, total, 1.0), 0.0)


def features(x: Float[Array, "k n"], degree) -> Float[Array, "m n"]:
    """φ of every column of x: monomials, so that ``φ(q)·φ(k) = truncated_exp(q·k)``.

    Those of degree i whose largest variable is x_e are x_e times the first C(e+i−1, i−1) monomials of degree i−1.
    """
    level, found = jnp.ones_like(x[:1]), [jnp.ones_like(x[:1])]
    for i in range(1, degree + 1):
        level = jnp.concatenate([x[e : e + 1] * level[: math.comb(e + i - 1, i - 1)] for e in range(len(x))])
        found.append(level * jnp.asarray(_weights(len(x), i), x.dtype))
    return jnp.concatenate(found)


@functools.cache
def _weights(width, degree):
    """``1/√α!`` of the monomials ``x^α`` of that degree, in their order: `[.. 1]`."""
    found = sorted(itertools.combinations_with_replacement(range(width), degree), key=lambda variables: variables[::-1])
    factorials = [math.prod(math.factorial(variables.count(e)) for e in {*variables}) for variables in found]
    return np.array(factorials, float)[:, None] ** -0.5


def attention(
    q: Float[Array, "b h t k"],
    k: Float[Array, "b h s k"],
    *,
    v: Float[Array, "b h s v"],
    mask: masks.Mask | None = None,
    degree,
    exact_forward=True,
    block=256,
    dtype="float32",
) -> Float[Array, "b h t v"]:
    """``softmax(q kᵀ) v`` with the gradient above. A query whose weights do not sum to a positive number gets none.

    Args:
        q: queries, scaled.
        mask: what each query may see; its `query_segments` must be None.
        exact_forward: whether the output is exact (in blocks of queries, in time O(n²)) or that of P.
        block: queries that the exact forward handles at once, and positions whose features are held at once.
    """
    return _attention(q, k, v, mask, degree, exact_forward, block, jnp.dtype(dtype).name)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6, 7))
def _attention(q, k, v, mask, degree, exact_forward, block, dtype):
    if exact_forward:
        return blockwise.attention(q, k, v=v, mask=mask, block=block, dtype=dtype)
    one = functools.partial(_output, degree=degree, causal=_causal(mask), dtype=dtype)
    return _by_heads(one, (q, k, _with_one(v, mask)), degree, block)[0]


def _forward(q, k, v, mask, degree, exact_forward, block, dtype):
    return _attention(q, k, v, mask, degree, exact_forward, block, dtype), (q, k, v, mask)


def _backward(degree, exact_forward, block, dtype, saved, d_output):
    q, k, v, mask = saved
    one = functools.partial(_gradients, degree=degree, causal=_causal(mask), dtype=dtype)
    return *_by_heads(one, (q, k, _with_one(v, mask), d_output), degree, block), None


_attention.defvjp(_forward, _backward)


def _causal(mask):
    return mask is not None and mask.causal


def _with_one(v, mask):
    """``[v, 1]`` `[b h s v+1]`, zero for padding, so that padding has no weight."""
    v = jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1)
    return v if mask is None else jnp.where(mask.real(v.shape[2])[:, None, :, None], v, 0.0)


def _by_heads(one, arrays, degree, block):
    """Maps `one` over the heads of arrays `[b h n k]`, in chunks; as many heads at once as `AT_ONCE` allows."""
    b, h, _, k = arrays[0].shape
    pairs = arrays[2].shape[-1] * (k + 1)
    held = count(k, degree) * (2 * pairs + block) + 2 * pairs * block
    chunks = [_cut(x.reshape(b * h, *x.shape[2:]), min(block, x.shape[2])) for x in arrays]
    found = jax.lax.map(lambda head: one(*head), chunks, batch_size=max(1, AT_ONCE // held))
    return tuple(_paste(x, like.shape[:3]) for x, like in zip(found, arrays))


def _cut(x, c):
    """`[heads n k] -> [heads chunks k c]`, with zeros at the end."""
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % c), (0, 0)))
    return x.reshape(len(x), -1, c, x.shape[2]).swapaxes(2, 3)


def _paste(x, shape):
    """`[heads chunks k c] -> [b h n k]`, given b, h and n."""
    b, h, n = shape
    return x.swapaxes(2, 3).reshape(b, h, -1, x.shape[2])[:, :, :n]


def _output(q, k, v, *, degree, causal, dtype):
    """The output of a head, as a tuple of one; v comes from `_with_one`."""
    phi, product = functools.partial(features, degree=degree), functools.partial(_product, dtype=dtype)

    def add(seen, k, v):
        return seen + product(v, phi(k).T)

    def of_chunk(seen, item):
        q, k, v = item
        mixed = product(seen, phi(q)) + product(v, _within(q, k, degree, dtype))
        return add(seen, k, v), mixed

    nothing = jnp.zeros((v.shape[1], count(k.shape[1], degree)), v.dtype)
    if causal:
        _, mixed = jax.lax.scan(of_chunk, nothing, (q, k, v))
    else:
        seen, _ = jax.lax.scan(lambda seen, item: (add(seen, *item), None), nothing, (k, v))
        mixed = jax.lax.map(lambda q: product(seen, phi(q)), q)
    return (ratio(mixed[:, :-1], mixed[:, -1:]),)


def _gradients(q, k, v, d_output, *, degree, causal, dtype):
    """``(d_q, d_k, d_v)`` of a head; v comes from `_with_one`.

    They are read from two sums `[pairs m]`: queries read ``Σ_j [v_j, 1] ⊗ [k_j, 1] ⊗ φ(k_j)``, keys read
    ``Σ_i [dO_i, −δ_i]/D_i ⊗ [q_i, 1] ⊗ φ(q_i)``. In the causal form, the queries of a chunk read the keys of earlier
    chunks and its keys read the queries of later chunks; within the chunk, an array `[c c]` is formed.
    """
    phi, product = functools.partial(features, degree=degree), functools.partial(_product, dtype=dtype)
    nothing = jnp.zeros((v.shape[1] * (k.shape[1] + 1), count(k.shape[1], degree)), v.dtype)

    def read(total, x):
        return product(total, phi(x)).reshape(v.shape[1], -1, x.shape[1])

    def add(total, x, y):
        return total + product(_pairs(y, x), phi(x).T)

    def of_queries(found, d_output, within=0):
        """The gradient of q so far, and ``[dO, −δ]/D``; `within` is what the chunk's own keys add to ``D [O, 1]``."""
        mixed = found[:, -1] + within
        inverse = ratio(1, mixed[-1:])
        delta = (d_output * mixed[:-1]).sum(0, keepdims=True) * inverse
        d = jnp.concatenate([d_output, -delta]) * inverse
        return (found[:, :-1] * d[:, None]).sum(0), d

    def of_keys(found, v):
        """The gradients of k and v so far."""
        return (found[:, :-1] * v[:, None]).sum(0), found[:-1, -1] * v[-1:]

    def full():
        seen, _ = jax.lax.scan(lambda seen, item: (add(seen, *item), None), nothing, (k, v))

        def one(written, item):
            q, d_output = item
            d_q, d = of_queries(read(seen, q), d_output)
            return add(written, q, d), d_q

        written, d_q = jax.lax.scan(one, nothing, (q, d_output))
        return d_q, *jax.lax.map(lambda item: of_keys(read(written, item[0]), item[1]), (k, v))

    def in_order():
        def onwards(seen, item):
            q, k, v, d_output = item
            weights = _within(q, k, degree, dtype)
            d_q, d = of_queries(read(seen, q), d_output, product(v, weights))
            d_scores = weights * product(v.T, d)
            return add(seen, k, v), (d_q + product(k, d_scores), d)

        def backwards(written, item):
            q, k, v, d = item
            weights = _within(q, k, degree, dtype)
            d_k, d_v = of_keys(read(written, k), v)
            d_k = d_k + product(q, (weights * product(v.T, d)).T)
            return add(written, q, d), (d_k, d_v + product(d[:-1], weights.T) * v[-1:])

        _, (d_q, d) = jax.lax.scan(onwards, nothing, (q, k, v, d_output))
        _, (d_k, d_v) = jax.lax.scan(backwards, nothing, (q, k, v, d), reverse=True)
        return d_q, d_k, d_v

    return in_order() if causal else full()


def _within(q, k, degree, dtype):
    """The weights of a chunk's own keys, `[c c]`, one column per query; zero for later keys."""
    return jnp.triu(truncated_exp(_product(k.T, q, dtype), degree))


def _pairs(x, y):
    """``x ⊗ [y, 1]`` of every position: `[x k] × [y k] -> [x·(y+1) k]`."""
    y = jnp.concatenate([y, jnp.ones_like(y[:1])])
    return (x[:, None] * y[None]).reshape(-1, x.shape[1])


def _product(x, y, dtype):
    """``x @ y`` with operands in `dtype` and sums in at least float32."""
    x, y = products.operand(x, dtype), products.operand(y, dtype)
    return jnp.matmul(x, y, preferred_element_type=jnp.promote_types(dtype, jnp.float32))
