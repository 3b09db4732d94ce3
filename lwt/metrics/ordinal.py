"""How far the predicted class of an ordered scale is from the label, from sums that add up over batches."""

import jax.numpy as jnp


def sums(predictions, labels, *, weights):
    """Float32 sums over a batch, of `[b]` class ids and `[b]` weights (0 for rows that do not count)."""
    p, y, weights = (jnp.asarray(x, jnp.float32) for x in (predictions, labels, weights))
    moments = {"count": p * 0 + 1, "away": jnp.abs(p - y), "apart": (p - y) ** 2}
    moments |= {"p": p, "pp": p * p, "y": y, "yy": y * y}
    return {f"ranks/{name}": (weights * values).sum() for name, values in moments.items()}


def finish(sums):
    """``mae``, the mean number of classes between prediction and label, and ``kappa``.

    κ is Cohen's, with quadratic weights: ``1 - Σ (p-y)² / E``, with E the same sum if predictions and labels were drawn
    independently (Cohen 1968), equal to scikit-learn's; 1 if all are right, 0 if E is 0 and they are not.
    """
    found = {name.partition("/")[2]: float(value) for name, value in sums.items() if name.startswith("ranks/")}
    count = max(found["count"], 1.0)
    by_chance = found["pp"] + found["yy"] - 2 * found["p"] * found["y"] / count
    kappa = 1 - found["apart"] / by_chance if by_chance > 0 else float(found["apart"] == 0)
    return {"mae": found["away"] / count, "kappa": kappa}
