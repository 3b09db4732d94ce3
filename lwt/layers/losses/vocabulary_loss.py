"""Cross-entropy over a large vocabulary, without the array `[b t v]` of all logits."""

import chex
import jax.numpy as jnp

from lwt.layers.losses import chunks, tiles


def vocabulary_loss(hidden, table, *, targets, weights, bias=None, smoothing=0.0, dtype=jnp.float32, chunk=512):
    """Sums of the label-smoothed cross-entropy of ``softmax(hidden @ table.T + bias)`` against `targets`.

    ``loss = -Σ w · ((1-ε) log p(target) + ε/v Σ_j log p(j))``, computed chunk by chunk (see `chunks`). A frozen table
    or bias gets no gradient at all.

    Args:
        hidden: `[b t d]`.
        table: `[v d]`, the tied embedding or output kernel (transposed).
        targets: `[b t]` int.
        weights: `[b t]`, 0 for padding.
        bias: `[v]`, or None.
        smoothing: ε.
        chunk: largest number of positions of a chunk.

    Returns:
        ``{"loss", "nll", "correct", "tokens"}``, scalar sums; "loss" has gradients for `hidden`, `table` and `bias`.
    """
    table, weights = jnp.asarray(table), jnp.asarray(weights, jnp.float32)
    bias = None if bias is None else jnp.asarray(bias)
    chex.assert_rank([hidden, table], [3, 2])
    chex.assert_shape([targets, weights], hidden.shape[:2])
    chex.assert_axis_dimension(table, 1, hidden.shape[2])
    settings = float(smoothing), jnp.dtype(dtype).name, chunk
    loss, nll, correct = _loss(hidden, table, bias, (targets, weights), (), settings)
    return {"loss": loss, "nll": nll, "correct": correct, "tokens": weights.sum()}


@chunks.differentiable
def _loss(hidden, table, bias, rows, constants, settings, want):
    """``((loss, nll, correct), gradients)``; the `rows` are targets and weights."""
    del constants
    (smoothing, dtype, chunk), v = settings, table.shape[0]
    want_hidden, want_table, want_bias = want
    (hidden, targets, weights), join = chunks.split([hidden, *rows], at_most=chunk)
    mean_row, mean_bias = table.mean(0), 0.0 if bias is None else bias.mean()
    tiled = tiles.cut(table, bias, positions=hidden.shape[1], dtype=dtype, columns=want_hidden)
    keep = "float32" if want_bias else dtype if want_table else None

    def one(carry, h, y, w):
        sums, gradients = carry
        found = tiles.walk(tiled, h, targets=y, dtype=dtype, keep=keep)
        log_total, share = jnp.log(found.total) + found.top, w / found.total
        nats = log_total - found.at_target
        smooth = log_total - h @ mean_row - mean_bias
        loss = (w * ((1 - smoothing) * nats + smoothing * smooth)).sum()
        terms = loss, (w * nats).sum(), (w * (found.at_target >= found.top)).sum()
        sums = tuple(total + term for total, term in zip(sums, terms, strict=True))
        # the softmax's part of the gradients; the targets' part is sparse, see below
        if keep:
            gradients = tiles.add_gradients(gradients, found, hidden=h, weights=share, dtype=dtype)
        return (sums, gradients), (found.mean_row * share).T if want_hidden else None

    of_table = tuple(jnp.zeros(rows.shape) for rows in tiled.rows) if want_table else None
    of_bias = tuple(jnp.zeros(len(rows)) for rows in tiled.rows) if want_bias else None
    gradients = of_table, of_bias
    start = (jnp.zeros((), jnp.float32),) * 3, gradients
    (sums, gradients), d_hidden = chunks.scan(one, start, chunks=(hidden, targets, weights))
    d_table, d_bias = (None if g is None else jnp.concatenate(g) for g in gradients)
    if d_hidden is not None:
        target_row = (1 - smoothing) * table[targets] + smoothing * mean_row
        d_hidden = d_hidden - weights[..., None] * target_row
    if d_table is not None:
        weighted = (weights[..., None] * hidden).reshape(-1, table.shape[1])
        d_table = d_table.at[targets.reshape(-1)].add(-(1 - smoothing) * weighted)
        if smoothing:
            d_table -= smoothing / v * weighted.sum(0, keepdims=True)
    if d_bias is not None:
        d_bias = d_bias.at[targets.reshape(-1)].add(-(1 - smoothing) * weights.reshape(-1))
        if smoothing:
            d_bias -= smoothing / v * weights.sum()
    return sums, (join(d_hidden), d_table, d_bias)
