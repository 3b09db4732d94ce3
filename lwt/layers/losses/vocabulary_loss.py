"""Cross-entropy over a large vocabulary that never holds the whole `[b t v]` array of logits."""

import functools

import jax
import jax.numpy as jnp

GROUPS = 8  # parts of the vocabulary in the gradient of the hidden states


def vocabulary_loss(hidden, table, targets, weights, *, bias=None, smoothing=0.0, dtype=jnp.float32, chunk=128):
    """Sums of the label-smoothed cross-entropy of ``softmax(hidden @ table.T + bias)`` against `targets`.

    ``loss = -Σ w · ((1-ε) log p(target) + ε/v Σ_j log p(j))``. The forward pass walks over chunks of positions and,
    when a gradient is wanted, computes it in the same pass: three products, where rematerialisation has four. Only
    `[v chunk]` logits exist at a time. A frozen table or bias gets no gradient at all.

    Args:
        hidden: `[b t d]`.
        table: `[v d]`, the tied embedding or output kernel (transposed).
        targets: `[b t]` int.
        weights: `[b t]`, 0 for padding.
        bias: `[v]`, or None.
        smoothing: ε.
        dtype: operands of the products; sums are float32.
        chunk: positions at a time, about. The walk is along t, so that b can stay sharded over devices.

    Returns:
        ``{"loss", "nll", "correct", "tokens"}``, scalar sums; differentiable in "loss" with respect to `hidden`,
        `table` and `bias`.
    """
    b, t, _ = hidden.shape
    chunks = functools.partial(in_chunks, step=chunk_length(t, max(1, chunk // b)))
    weights = jnp.asarray(weights, jnp.float32)
    bias = None if bias is None else jnp.asarray(bias)
    rows = chunks(hidden), jnp.asarray(table), bias, chunks(targets), chunks(weights)
    loss, nll, correct = _loss(*rows, float(smoothing), jnp.dtype(dtype).name)
    return {"loss": loss, "nll": nll, "correct": correct, "tokens": weights.sum()}


def chunk_length(t, most):
    """How many of t positions make a chunk, `most` at most: the greatest divisor of t, if it is more than half of what
    may be; else the length of equal parts, of which the last is padded."""
    most = min(t, most)
    divisor = max((s for s in range(1, most + 1) if t % s == 0), default=1)
    return divisor if 2 * divisor > most else -(-t // -(-t // most))


def in_chunks(x, step):
    """`[b t ...]` -> `[m b·step ...]`, m chunks of t with zeros at the end of the last; batch major inside a chunk."""
    b, t = x.shape[:2]
    count = -(-t // step)
    if t < count * step:
        x = jnp.pad(x, ((0, 0), (0, count * step - t), *((0, 0) for _ in x.shape[2:])))
    x = x.reshape(b, count, step, *x.shape[2:])
    return jnp.moveaxis(x, 1, 0).reshape(count, b * step, *x.shape[3:])


def columns_of(table):
    """`[v d]` -> `[g d v/g]`, for `from_logits`: the long sum over v in parts for different cores; transposed once, not
    for every chunk."""
    v, d = table.shape
    groups = GROUPS if v % GROUPS == 0 else 1
    return jax.lax.optimization_barrier(jnp.swapaxes(table.reshape(groups, v // groups, d), 1, 2))


def from_logits(columns, d_logits):
    """The gradient `[d n]` of hidden states, from `columns_of` the table and that of the logits `[v n]`."""
    parts = d_logits.reshape(columns.shape[0], columns.shape[2], -1)
    summed = (((2,), (1,)), ((0,), (0,)))
    return jax.lax.dot_general(columns, parts, summed, preferred_element_type=jnp.float32).sum(0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _loss(hidden, table, bias, targets, weights, smoothing, dtype):
    return _walk(hidden, table, bias, targets, weights, smoothing, dtype, want=(False, False, False))[0]


def _walk(hidden, table, bias, targets, weights, smoothing, dtype, *, want):
    """Sums, and the gradients that are wanted, chunk by chunk; hidden `[m n d]`, targets and weights `[m n]`.

    `want` tells which gradients: those of hidden, table, bias.

    The logits are `[v n]`, so that each of the three products has its sum along the last axis of the left and the
    first axis of the right factor: the layout that every backend has fast code for.
    """
    v, d = table.shape
    want_hidden, want_table, want_bias = want
    # The barrier: XLA's CPU backend would fold a transposition of the table into the first product, and then refuse it.
    operand = jax.lax.optimization_barrier(table.astype(dtype))
    columns = columns_of(operand) if want_hidden else None
    mean_row, mean_bias = table.mean(0), 0.0 if bias is None else bias.mean()

    def one(carry, chunk):
        (loss, nll, correct), d_table, d_bias = carry
        h, y, w = chunk
        h_operand = h.astype(dtype)
        logits = jax.lax.dot_general(operand, h_operand, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
        if bias is not None:
            logits += bias[:, None]
        top = logits.max(0)
        total = jnp.exp(logits - top).sum(0)
        log_total = jnp.log(total) + top
        at_target = jnp.take_along_axis(logits, y[None], 0)[0]
        nats = log_total - at_target
        smooth = log_total - h @ mean_row - mean_bias
        sums = (
            loss + (w * ((1 - smoothing) * nats + smoothing * smooth)).sum(),
            nll + (w * nats).sum(),
            correct + (w * (at_target >= top)).sum(),
        )
        d_hidden = None
        if any(want):
            d_logits = jnp.exp(logits - top) * (w / total)  # the softmax's part; the target's is sparse
        if want_bias:
            d_bias += d_logits.sum(1)
        if want_hidden or want_table:
            d_logits = d_logits.astype(dtype)
        if want_hidden:
            d_hidden = from_logits(columns, d_logits)
        if want_table:
            d_table += jnp.dot(d_logits, h_operand, preferred_element_type=jnp.float32)
        return (sums, d_table, d_bias), d_hidden

    def none(carry, chunk):
        return carry, jnp.zeros(chunk[0].shape[::-1], jnp.float32) if want_hidden else None

    def step(carry, chunk):  # packed rows end in padding: a chunk of nothing else costs nothing
        return jax.lax.cond((chunk[2] != 0).any(), one, none, carry, chunk)

    zero = jnp.zeros((), jnp.float32)
    d_table = jnp.zeros(table.shape, jnp.float32) if want_table else None
    d_bias = jnp.zeros(v, jnp.float32) if want_bias else None
    start = ((zero, zero, zero), d_table, d_bias)
    (sums, d_table, d_bias), d_hidden = jax.lax.scan(step, start, (hidden, targets, weights))
    if want_hidden:
        target_row = (1 - smoothing) * table[targets] + smoothing * mean_row
        d_hidden = jnp.swapaxes(d_hidden, 1, 2) - weights[..., None] * target_row
    if want_table:
        weighted = (weights[..., None] * hidden).reshape(-1, d)
        d_table = d_table.at[targets.reshape(-1)].add(-(1 - smoothing) * weighted)
        if smoothing:
            d_table -= smoothing / v * weighted.sum(0, keepdims=True)
    if want_bias:
        d_bias = d_bias.at[targets.reshape(-1)].add(-(1 - smoothing) * weights.reshape(-1))
        if smoothing:
            d_bias -= smoothing / v * weights.sum()
    return sums, (d_hidden, d_table, d_bias)


def _forward(hidden, table, bias, targets, weights, smoothing, dtype):
    want = hidden.perturbed, table.perturbed, bias is not None and bias.perturbed
    values = hidden.value, table.value, None if bias is None else bias.value, targets.value, weights.value
    return _walk(*values, smoothing, dtype, want=want)


def _backward(smoothing, dtype, gradients, cotangents):
    d_loss = cotangents[0]
    if isinstance(d_loss, jax.custom_derivatives.SymbolicZero):
        return None, None, None, None, None
    d_hidden, d_table, d_bias = (None if g is None else d_loss * g for g in gradients)
    return d_hidden, d_table, d_bias, None, None


_loss.defvjp(_forward, _backward, symbolic_zeros=True)
