"""The divergence of a student's logits from its teacher's over a large vocabulary, without either array `[b t v]`."""

import chex
import jax
import jax.numpy as jnp

from lwt.layers import products
from lwt.layers.losses import chunks


def divergence(logits, teacher, *, temperature):
    """``T² KL(softmax(z'/T) ‖ softmax(z/T))`` along the last axis, in nats: ``[... c], [... c] -> [...]``.

    T² keeps the gradient ``T (softmax(z/T) - softmax(z'/T))`` of one size for all T; as T grows, the value tends to
    half of the variance of ``z - z'`` (Hinton et al. 2015, arXiv 1503.02531, sections 2 and 2.1; theirs is a
    cross-entropy, which differs by a constant).

    Args:
        logits: z.
        teacher: z'; a constant.
        temperature: T.
    """
    chex.assert_equal_shape([logits, teacher])
    log_q = jax.nn.log_softmax(logits / temperature)
    log_p = jax.nn.log_softmax(jax.lax.stop_gradient(teacher) / temperature)
    return temperature**2 * (jnp.exp(log_p) * (log_p - log_q)).sum(-1)


def soft_loss(student, teacher, *, weights, temperature=1.0, dtype=jnp.float32, chunk=128):
    """``Σ w · divergence(z, z')`` for ``z = hidden @ table.T + bias``, chunk by chunk as in `vocabulary_loss`.

    Four products: the logits of both, and the two gradients of the student.

    Args:
        student: ``(hidden [b t d], table [v d], bias [v] or None)``, the arrays with gradients.
        teacher: the same, of its own width; constants.
        weights: `[b t]`, 0 for padding.
        temperature: T.
        chunk: largest number of positions of a chunk.
    """
    (hidden, table, bias), (other, other_table, other_bias) = student, teacher
    weights = jnp.asarray(weights, jnp.float32)
    chex.assert_rank([hidden, other], 3)
    chex.assert_shape(weights, hidden.shape[:2])
    chex.assert_equal_shape_prefix([hidden, other], 2)
    chex.assert_shape([table, other_table], [(None, hidden.shape[2]), (table.shape[0], other.shape[2])])
    settings = float(temperature), jnp.dtype(dtype).name, chunk
    return _loss(hidden, table, bias, (other, weights), (other_table, other_bias), settings)[0]


@chunks.differentiable
def _loss(hidden, table, bias, rows, constants, settings, want):
    """``((sum,), gradients)``; the `rows` are the teacher's hidden states and the weights."""
    (other_table, other_bias), (temperature, dtype, chunk) = constants, settings
    (hidden, other, weights), join = chunks.split([hidden, *rows], at_most=chunk)
    other_operand = chunks.operand_of(other_table, dtype)

    def of_chunk(logits, h, h_other, w):
        del h
        teacher = chunks.logits(other_operand, products.rounded(h_other, dtype), bias=other_bias)
        log_q = jax.nn.log_softmax(logits / temperature, axis=0)
        log_p = jax.nn.log_softmax(teacher / temperature, axis=0)
        p = jnp.exp(log_p)
        total = temperature**2 * (w * (p * (log_p - log_q)).sum(0)).sum()
        return (total,), temperature * w * (jnp.exp(log_q) - p)

    zeros = (jnp.zeros((), jnp.float32),)
    sums, (d_hidden, *shared) = chunks.walk(
        of_chunk, zeros, hidden=hidden, table=table, bias=bias, others=(other, weights), want=want, dtype=dtype
    )
    return sums, (join(d_hidden), *shared)
