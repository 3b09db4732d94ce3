"""Cross-entropy over a large vocabulary that never holds the whole `[b t v]` array of logits."""

import functools

import jax
import jax.numpy as jnp

GROUPS = 8  # parts of the vocabulary in the gradient of the hidden states


def vocabulary_loss(hidden, table, targets, weights, *, smoothing=0.0, dtype=jnp.float32, chunk=256):
    """Sums of the label-smoothed cross-entropy of ``softmax(hidden @ table.T)`` against `targets`.

    ``loss = -Σ w · ((1-ε) log p(target) + ε/v Σ_j log p(j))``. The forward pass walks over chunks of positions and,
    when a gradient is wanted, computes it in the same pass: three products, where rematerialisation has four. Only
    `[v chunk]` logits exist at a time. A frozen table gets no gradient at all.

    Args:
        hidden: `[b t d]`.
        table: `[v d]`, the tied embedding or output kernel (transposed).
        targets: `[b t]` int.
        weights: `[b t]`, 0 for padding.
        smoothing: ε.
        dtype: operands of the products; sums are float32.
        chunk: positions at a time, about. The walk is along t, so that b can stay sharded over devices.

    Returns:
        ``{"loss", "nll", "correct", "tokens"}``, scalar sums; differentiable in "loss" with respect to `hidden` and
        `table`.
    """
    b, t, d = hidden.shape
    step = max((s for s in range(1, t + 1) if t % s == 0 and s * b <= max(chunk, b)), default=1)

    def chunks(x):  # [b t ...] -> [t/step, b·step, ...], batch major inside a chunk
        x = x.reshape(b, t // step, step, *x.shape[2:])
        return jnp.moveaxis(x, 1, 0).reshape(t // step, b * step, *x.shape[3:])

    weights = jnp.asarray(weights, jnp.float32)
    loss, nll, correct = _loss(
        chunks(hidden), jnp.asarray(table), chunks(targets), chunks(weights), float(smoothing), jnp.dtype(dtype).name
    )
    return {"loss": loss, "nll": nll, "correct": correct, "tokens": weights.sum()}


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _loss(hidden, table, targets, weights, smoothing, dtype):
    return _walk(hidden, table, targets, weights, smoothing, dtype, want_hidden=False, want_table=False)[0]


def _walk(hidden, table, targets, weights, smoothing, dtype, *, want_hidden, want_table):
    """Sums, and the gradients that are wanted, chunk by chunk; hidden `[m n d]`, targets and weights `[m n]`.

    The logits are `[v n]`, so that each of the three products has its sum along the last axis of the left and the
    first axis of the right factor: the layout that every backend has fast code for.
    """
    v, d = table.shape
    operand = table.astype(dtype)
    # [g d v/g]: the long sum over v of d_hidden, in parts that can go to different cores; transposed once, not per chunk
    groups = GROUPS if v % GROUPS == 0 else 1
    columns = jnp.swapaxes(operand.reshape(groups, v // groups, d), 1, 2)
    columns = jax.lax.optimization_barrier(columns) if want_hidden else None
    mean_row = table.mean(0)

    def one(carry, chunk):
        (loss, nll, correct), d_table = carry
        h, y, w = chunk
        h_operand = h.astype(dtype)
        logits = jax.lax.dot_general(operand, h_operand, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        top = logits.max(0)
        total = jnp.exp(logits - top).sum(0)
        log_total = jnp.log(total) + top
        at_target = jnp.take_along_axis(logits, y[None], 0)[0]
        nats = log_total - at_target
        smooth = log_total - h @ mean_row
        sums = (
            loss + (w * ((1 - smoothing) * nats + smoothing * smooth)).sum(),
            nll + (w * nats).sum(),
            correct + (w * (at_target >= top)).sum(),
        )
        d_hidden = None
        if want_hidden or want_table:
            d_logits = (jnp.exp(logits - top) * (w / total)).astype(dtype)  # the softmax's part; the target's is sparse
        if want_hidden:
            parts = d_logits.reshape(groups, v // groups, -1)
            d_hidden = jax.lax.dot_general(
                columns, parts, (((2,), (1,)), ((0,), (0,))), preferred_element_type=jnp.float32
            ).sum(0)
        if want_table:
            d_table += jnp.dot(d_logits, h_operand, preferred_element_type=jnp.float32)
        return (sums, d_table), d_hidden

    zero = jnp.zeros((), jnp.float32)
    start = ((zero, zero, zero), jnp.zeros(table.shape, jnp.float32) if want_table else None)
    (sums, d_table), d_hidden = jax.lax.scan(one, start, (hidden, targets, weights))
    if want_hidden:
        target_row = (1 - smoothing) * table[targets] + smoothing * mean_row
        d_hidden = jnp.swapaxes(d_hidden, 1, 2) - weights[..., None] * target_row
    if want_table:
        weighted = (weights[..., None] * hidden).reshape(-1, d)
        d_table = d_table.at[targets.reshape(-1)].add(-(1 - smoothing) * weighted)
        if smoothing:
            d_table -= smoothing / v * weighted.sum(0, keepdims=True)
    return sums, (d_hidden, d_table)


def _forward(hidden, table, targets, weights, smoothing, dtype):
    sums, gradients = _walk(
        hidden.value,
        table.value,
        targets.value,
        weights.value,
        smoothing,
        dtype,
        want_hidden=hidden.perturbed,
        want_table=table.perturbed,
    )
    return sums, gradients


def _backward(smoothing, dtype, gradients, cotangents):
    d_loss = cotangents[0]
    if isinstance(d_loss, jax.custom_derivatives.SymbolicZero):
        return None, None, None, None
    d_hidden, d_table = (None if g is None else d_loss * g for g in gradients)
    return d_hidden, d_table, None, None


_loss.defvjp(_forward, _backward, symbolic_zeros=True)
