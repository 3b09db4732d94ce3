"""The walk over chunks of positions that the losses over a vocabulary share.

Logits of one chunk, `[v n]`, exist at a time. The gradients are computed in the same pass: three products, where
rematerialisation needs four. A chunk that is all padding is skipped: packed rows end in padding.

Logits are `[v n]` so that each product sums along the last axis of its left factor and the first axis of its right
factor: the layout that every backend has fast code for.
"""

import functools

import jax
import jax.numpy as jnp

GROUPS = 8  # parts of the vocabulary in the gradient of the hidden states


def split(arrays, *, at_most):
    """`[b t ...]` -> `[m b·step ...]` for each array (or None): m chunks of about `at_most` positions.

    Chunks run along t, so that b can stay sharded over devices. The last chunk is padded with zeros.
    """
    b, t = arrays[0].shape[:2]
    step = chunk_length(t, max(1, at_most // b))
    count = -(-t // step)

    def cut(x):
        if t < count * step:
            x = jnp.pad(x, ((0, 0), (0, count * step - t), *((0, 0) for _ in x.shape[2:])))
        x = x.reshape(b, count, step, *x.shape[2:])
        return jnp.moveaxis(x, 1, 0).reshape(count, b * step, *x.shape[3:])

    return [cut(x) for x in arrays]


def chunk_length(t, most):
    """How many of t positions make a chunk, at most `most`: a divisor of t if it is large enough, else pad the last."""
    most = min(t, most)
    divisor = max((s for s in range(1, most + 1) if t % s == 0), default=1)
    return divisor if 2 * divisor > most else -(-t // -(-t // most))


def operand_of(table, dtype):
    """The table in `dtype`, as a left factor of `logits`.

    Without the barrier XLA's CPU backend folds a transposition of the table into the product and then rejects it.
    """
    return jax.lax.optimization_barrier(table.astype(dtype))


def logits(operand, hidden, *, bias):
    """``operand [v d] @ hidden.T [d n] + bias [v]``: `[v n]` in float32; `bias` may be None."""
    z = jax.lax.dot_general(operand, hidden, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    return z if bias is None else z + bias[:, None]


def walk(of_chunk, zeros, *, hidden, table, bias, others, want, dtype):
    """Sums of `of_chunk` over all chunks, and the wanted gradients of the first sum.

    Args:
        of_chunk: ``(logits [v n], hidden [n d], *others) -> (sums, d_logits [v n])``, the last being the gradient of
            the first sum.
        zeros: a tuple of zeros, as many as there are sums.
        hidden: `[m n d]`.
        table: `[v d]`.
        bias: `[v]`, or None.
        others: further arrays `[m n ...]`; the last holds the weights, 0 for padding.
        want: three booleans: whether hidden, table and bias get gradients.

    Returns:
        ``(sums, (d_hidden [m n d], d_table [v d], d_bias [v]))``, None for a gradient that is not wanted.
    """
    want_hidden, want_table, want_bias = want
    operand = operand_of(table, dtype)
    columns = _columns(operand) if want_hidden else None

    def one(carry, chunk):
        sums, d_table, d_bias = carry
        h = chunk[0].astype(dtype)
        terms, d_logits = of_chunk(logits(operand, h, bias=bias), *chunk)
        sums = tuple(total + term for total, term in zip(sums, terms, strict=True))
        d_hidden = None
        if want_bias:
            d_bias += d_logits.sum(1)
        d_logits = d_logits.astype(dtype)
        if want_hidden:
            d_hidden = _hidden_gradient(columns, d_logits)
        if want_table:
            d_table += jnp.dot(d_logits, h, preferred_element_type=jnp.float32)
        return (sums, d_table, d_bias), d_hidden

    def skip(carry, chunk):
        return carry, jnp.zeros(chunk[0].shape[::-1], jnp.float32) if want_hidden else None

    def step(carry, chunk):
        return jax.lax.cond((chunk[-1] != 0).any(), one, skip, carry, chunk)

    d_table = jnp.zeros(table.shape, jnp.float32) if want_table else None
    d_bias = jnp.zeros(table.shape[0], jnp.float32) if want_bias else None
    (sums, d_table, d_bias), d_hidden = jax.lax.scan(step, (zeros, d_table, d_bias), (hidden, *others))
    return sums, (jnp.swapaxes(d_hidden, 1, 2) if want_hidden else None, d_table, d_bias)


def differentiable(sums_and_gradients):
    """A loss ``(hidden, table, bias, constants, settings) -> sums`` whose first sum can be differentiated.

    The gradients are computed in the forward pass, and only those that are wanted: a frozen table or bias gets none.

    Args:
        sums_and_gradients: ``(hidden, table, bias, constants, settings, want) -> (sums, gradients)``, as of `walk`;
            `constants` is a tuple of arrays and None, `settings` is hashable.
    """

    @functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
    def loss(hidden, table, bias, constants, settings):
        return sums_and_gradients(hidden, table, bias, constants, settings, (False, False, False))[0]

    def forward(hidden, table, bias, constants, settings):
        want = hidden.perturbed, table.perturbed, bias is not None and bias.perturbed
        values = jax.tree.map(lambda x: x.value, (hidden, table, bias, constants))
        return sums_and_gradients(*values, settings, want)

    def backward(settings, gradients, d_sums):
        del settings
        d_loss = d_sums[0]
        if isinstance(d_loss, jax.custom_derivatives.SymbolicZero):
            return None, None, None, None
        return *(None if g is None else d_loss * g for g in gradients), None

    loss.defvjp(forward, backward, symbolic_zeros=True)
    return loss


def _columns(table):
    """`[v d]` -> `[g d v/g]`, for `_hidden_gradient`: the long sum over v in parts for different cores."""
    v, d = table.shape
    groups = GROUPS if v % GROUPS == 0 else 1
    return jax.lax.optimization_barrier(jnp.swapaxes(table.reshape(groups, v // groups, d), 1, 2))


def _hidden_gradient(columns, d_logits):
    """The gradient `[d n]` of hidden states, from the table's `_columns` and the gradient `[v n]` of the logits."""
    parts = d_logits.reshape(columns.shape[0], columns.shape[2], -1)
    summed = (((2,), (1,)), ((0,), (0,)))
    return jax.lax.dot_general(columns, parts, summed, preferred_element_type=jnp.float32).sum(0)
