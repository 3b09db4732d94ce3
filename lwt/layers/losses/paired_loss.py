"""R-Drop: cross-entropy of two passes with different dropout, and their divergence, over a large vocabulary."""

import chex
import jax
import jax.numpy as jnp

from lwt.layers.losses import chunks


def paired_loss(hidden, table, *, targets, weights, weight, bias=None, smoothing=0.0, dtype=jnp.float32, chunk=512):
    """Sums of ``(c₁ + c₂)/2 + α/2 · (KL(p₁‖p₂) + KL(p₂‖p₁))/2`` (Liang et al. 2021, arXiv 2106.14448, equation 4).

    The paper has twice this, which an optimizer like Adam does not tell apart. Both passes have gradients. Chunk by
    chunk, as `vocabulary_loss`, whose arguments and label-smoothed cross-entropy c are the same.

    Args:
        hidden: `[2b t d]`; rows 2i and 2i + 1 are the passes of row i.
        table: `[v d]`.
        targets: `[b t]` int.
        weights: `[b t]`, 0 for padding.
        weight: α.
        chunk: largest number of positions of a chunk, both passes together.

    Returns:
        ``{"loss", "nll", "correct", "tokens", "divergence"}``, scalar sums over the tokens: means of the two passes,
        and the mean of the two KL divergences in nats. "loss" has gradients for `hidden`, `table` and `bias`.
    """
    table, weights = jnp.asarray(table), jnp.asarray(weights, jnp.float32)
    bias = None if bias is None else jnp.asarray(bias)
    b, t = targets.shape
    chex.assert_shape(hidden, (2 * b, t, table.shape[1]))
    chex.assert_equal_shape([targets, weights])
    neighbours = jnp.swapaxes(hidden.reshape(b, 2, t, -1), 1, 2).reshape(b, 2 * t, -1)
    rows = tuple(jnp.repeat(x, 2, axis=1) for x in (targets, weights))
    settings = float(weight), float(smoothing), jnp.dtype(dtype).name, max(2, chunk // 2 * 2)
    loss, nll, correct, apart = _loss(neighbours, table, bias, rows, (), settings)
    return {"loss": loss, "nll": nll, "correct": correct, "tokens": weights.sum(), "divergence": apart}


@chunks.differentiable
def _loss(hidden, table, bias, rows, constants, settings, want):
    """``((loss, nll, correct, divergence), gradients)``; the passes of a token are neighbours along axis 1."""
    del constants
    weight, smoothing, dtype, chunk = settings
    (hidden, *others), join = chunks.split([hidden, *rows], at_most=chunk)
    v, entries = table.shape[0], jnp.arange(table.shape[0])[:, None]

    def of_chunk(logits, h, y, w):
        del h
        log_p = jax.nn.log_softmax(logits, axis=0)
        p, target = jnp.exp(log_p), (entries == y) * 1.0
        nats, smooth = -(target * log_p).sum(0), -log_p.mean(0)
        difference = log_p - _other(log_p)
        apart = (p * difference).sum(0)  # of a token's first pass KL(p₁‖p₂), of its second KL(p₂‖p₁)
        loss = (1 - smoothing) * nats + smoothing * smooth + weight / 2 * apart
        correct = jnp.take_along_axis(log_p, y[None], 0)[0] >= log_p.max(0)
        d_logits = p - (1 - smoothing) * target - smoothing / v
        d_logits += weight / 2 * (p * (difference - apart) + p - _other(p))
        return tuple((w / 2 * x).sum() for x in (loss, nats, correct, apart)), w / 2 * d_logits

    zeros = (jnp.zeros((), jnp.float32),) * 4
    hidden, *others = (_halves(x) for x in (hidden, *others))
    sums, (d_hidden, *shared) = chunks.walk(
        of_chunk, zeros, hidden=hidden, table=table, bias=bias, others=others, want=want, dtype=dtype
    )
    if d_hidden is not None:
        d_hidden = _neighbours(d_hidden)
    return sums, (join(d_hidden), *shared)


def _halves(x):
    """Chunks `[m 2n ...]` of neighbours, in each chunk with all first passes before all second ones."""
    return jnp.swapaxes(x.reshape(len(x), -1, 2, *x.shape[2:]), 1, 2).reshape(x.shape)


def _neighbours(x):
    """The inverse of `_halves`."""
    return jnp.swapaxes(x.reshape(len(x), 2, -1, *x.shape[2:]), 1, 2).reshape(x.shape)


def _other(x):
    """`[v 2n]` -> the same with the halves exchanged: for each token the values of its other pass."""
    first, second = jnp.split(x, 2, axis=1)
    return jnp.concatenate([second, first], axis=1)
