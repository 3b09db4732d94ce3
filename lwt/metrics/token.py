"""Loss, perplexity and accuracy of the next token, from the sums of `layers/losses/vocabulary_loss.py`."""

import math

from lwt import errors


def finish(sums):
    """Sums -> ``loss`` (nats per token, with label smoothing), ``perplexity`` (without it), ``accuracy``, ``tokens``.

    Args:
        sums: ``{"loss", "nll", "correct", "tokens"}``; the first two are in nats, with and without label smoothing.

    Raises:
        lwt.errors.DataError: no token was counted.
    """
    tokens = float(sums["tokens"])
    if not tokens > 0:
        raise errors.DataError("no target token was evaluated: the split is empty, or holds only padding")
    nats = float(sums["nll"]) / tokens
    return {
        "loss": float(sums["loss"]) / tokens,
        "perplexity": math.exp(nats) if nats < 700 else math.inf,
        "accuracy": float(sums["correct"]) / tokens,
        "tokens": int(tokens),
    }
