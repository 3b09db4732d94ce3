"""Cross-entropy, perplexity and accuracy of the next token, from sums over tokens."""

import math

import jax
import jax.numpy as jnp

from lwt import errors


def sums(logits, targets, weights):
    """Sums over tokens, for a model whose logits fit into memory (else: `layers/vocabulary_loss.py`, the same keys).

    Args:
        logits: `[... v]`.
        targets: `[...]` ids.
        weights: `[...]`, 0 for padding.

    Returns:
        ``{"loss", "nll", "correct", "tokens"}``: the first two are the same sum, in nats.
    """
    weights = jnp.asarray(weights, jnp.float32)
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    nll = -(jnp.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0] * weights).sum()
    correct = ((jnp.argmax(logits, axis=-1) == targets) * weights).sum()
    return {"loss": nll, "nll": nll, "correct": correct, "tokens": weights.sum()}


def finish(sums):
    """Sums -> ``loss`` (nats a token, label smoothing included), ``perplexity`` (without it), ``accuracy``, ``tokens``.

    Raises:
        lwt.errors.DataError: no token was counted.
    """
    tokens = float(sums["tokens"])
    if not tokens > 0:
        raise errors.DataError("no target token was evaluated: the split is empty, or all of it is padding")
    nats = float(sums["nll"]) / tokens
    return {
        "loss": float(sums["loss"]) / tokens,
        "perplexity": math.exp(nats) if nats < 700 else math.inf,
        "accuracy": float(sums["correct"]) / tokens,
        "tokens": int(tokens),
    }
