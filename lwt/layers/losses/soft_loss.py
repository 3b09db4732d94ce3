"""What a student's logits over a large vocabulary are from its teacher's; neither's `[b t v]` array is ever whole."""

import functools

import jax
import jax.numpy as jnp

from lwt.layers.losses import vocabulary_loss


def divergence(logits, teacher, temperature):
    """``T² KL(softmax(z'/T) ‖ softmax(z/T))`` along the last axis, in nats: ``[... c], [... c] -> [...]``.

    T² keeps the gradient ``T (softmax(z/T) - softmax(z'/T))`` of one size for all T; as T grows, the value goes to half
    of the variance of ``z - z'`` (Hinton et al. 2015, arXiv 1503.02531, sections 2 and 2.1, there as a cross-entropy,
    which differs by a constant).

    Args:
        logits: z, of the student.
        teacher: z'; a constant.
        temperature: T.
    """
    log_q = jax.nn.log_softmax(logits / temperature)
    log_p = jax.nn.log_softmax(jax.lax.stop_gradient(teacher) / temperature)
    return temperature**2 * (jnp.exp(log_p) * (log_p - log_q)).sum(-1)


def soft_loss(student, teacher, weights, *, temperature=1.0, dtype=jnp.float32, chunk=128):
    """``Σ w · divergence(z, z')`` for ``z = hidden @ table.T + bias``, chunk by chunk as in `vocabulary_loss`.

    Four products: the logits of both, and the two gradients of the student's.

    Args:
        student: ``(hidden [b t d], table [v d], bias [v] or None)``.
        teacher: the same, of its own width; constants.
        weights: `[b t]`, 0 for padding.
        temperature: T.
        dtype: operands of the products; sums are float32.
        chunk: positions at a time, about.

    Returns:
        A scalar, differentiable with respect to what the student is.
    """
    (hidden, *head), (other, *other_head) = student, teacher
    b, t, _ = hidden.shape
    chunks = functools.partial(vocabulary_loss.in_chunks, step=vocabulary_loss.chunk_length(t, max(1, chunk // b)))
    weights = chunks(jnp.asarray(weights, jnp.float32))
    return _loss(chunks(hidden), *head, chunks(other), *other_head, weights, float(temperature), jnp.dtype(dtype).name)


@functools.partial(jax.custom_vjp, nondiff_argnums=(7, 8))
def _loss(hidden, table, bias, other, other_table, other_bias, weights, temperature, dtype):
    arrays = hidden, table, bias, other, other_table, other_bias, weights
    return _walk(*arrays, temperature, dtype, want=(False, False, False))[0]


def _walk(hidden, table, bias, other, other_table, other_bias, weights, temperature, dtype, *, want):
    """The sum, and the gradients that are wanted of hidden, table and bias; hidden `[m n d]`, weights `[m n]`."""
    want_hidden, want_table, want_bias = want
    operand, other_operand = (jax.lax.optimization_barrier(w.astype(dtype)) for w in (table, other_table))
    columns = vocabulary_loss.columns_of(operand) if want_hidden else None

    def logits(operand, h, bias):  # [v n]
        z = jax.lax.dot_general(operand, h, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        return z if bias is None else z + bias[:, None]

    def one(carry, chunk):
        total, d_table, d_bias = carry
        h, h_other, w = chunk
        h = h.astype(dtype)
        log_q = jax.nn.log_softmax(logits(operand, h, bias) / temperature, axis=0)
        log_p = jax.nn.log_softmax(logits(other_operand, h_other.astype(dtype), other_bias) / temperature, axis=0)
        p = jnp.exp(log_p)
        total += temperature**2 * (w * (p * (log_p - log_q)).sum(0)).sum()
        d_hidden = None
        if any(want):
            d_logits = temperature * w * (jnp.exp(log_q) - p)
        if want_bias:
            d_bias += d_logits.sum(1)
        if want_hidden or want_table:
            d_logits = d_logits.astype(dtype)
        if want_hidden:
            d_hidden = vocabulary_loss.from_logits(columns, d_logits)
        if want_table:
            d_table += jnp.dot(d_logits, h, preferred_element_type=jnp.float32)
        return (total, d_table, d_bias), d_hidden

    def none(carry, chunk):
        return carry, jnp.zeros(chunk[0].shape[::-1], jnp.float32) if want_hidden else None

    def step(carry, chunk):  # a chunk of padding costs nothing
        return jax.lax.cond((chunk[2] != 0).any(), one, none, carry, chunk)

    d_table = jnp.zeros(table.shape, jnp.float32) if want_table else None
    d_bias = jnp.zeros(table.shape[0], jnp.float32) if want_bias else None
    start = jnp.zeros((), jnp.float32), d_table, d_bias
    (total, d_table, d_bias), d_hidden = jax.lax.scan(step, start, (hidden, other, weights))
    return total, (jnp.swapaxes(d_hidden, 1, 2) if want_hidden else None, d_table, d_bias)


def _forward(hidden, table, bias, *constants):
    *arrays, temperature, dtype = constants
    want = hidden.perturbed, table.perturbed, bias is not None and bias.perturbed
    values = (None if x is None else x.value for x in (hidden, table, bias, *arrays))
    return _walk(*values, temperature, dtype, want=want)


def _backward(temperature, dtype, gradients, d_loss):
    if isinstance(d_loss, jax.custom_derivatives.SymbolicZero):
        return (None,) * 7
    return *(None if g is None else d_loss * g for g in gradients), None, None, None, None


_loss.defvjp(_forward, _backward, symbolic_zeros=True)
