"""Figures of records with several labels or none, from counts that add up over batches; equal to scikit-learn's."""

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.metrics import classification, exact


def sums(predictions, labels, *, weights=None):
    """Counts over a batch.

    Args:
        predictions, labels: `[b c]`, above 0 for the classes of a record.
        weights: `[b]`, 0 for rows that do not count; None counts every row.

    Returns:
        Float32 scalars ``{"examples", "exact"}`` and, per class k, ``"hits/k"``, ``"predicted/k"``, ``"labelled/k"``.
    """
    predicted, labelled = jnp.asarray(predictions) > 0, jnp.asarray(labels) > 0
    weights = jnp.ones(len(predicted)) if weights is None else jnp.asarray(weights, jnp.float32)
    counts = {"hits": predicted & labelled, "predicted": predicted, "labelled": labelled}
    flat = {f"{name}/{k}": weights @ count[:, k] for name, count in counts.items() for k in range(count.shape[1])}
    return {"examples": weights.sum(), "exact": weights @ (predicted == labelled).all(axis=1)} | flat


def finish(sums):
    """Counts -> ``subset_accuracy`` (the share of records all of whose labels are right) and ``examples``.

    With class counts also ``precision``, ``recall`` and ``f1`` with ``_micro`` (all decisions together) and ``_macro``
    (the mean over classes); a division by zero gives 0.

    Raises:
        lwt.errors.DataError: there are no examples.
    """
    examples = float(sums["examples"])
    if not examples > 0:
        raise errors.DataError("no record was classified: the split is empty")
    figures = {"subset_accuracy": float(sums["exact"]) / examples, "examples": int(examples)}
    classes = sum(name.startswith("hits/") for name in sums)
    if not classes:
        return figures
    hits, predicted, labelled = (
        np.array([float(sums[f"{name}/{k}"]) for k in range(classes)]) for name in ("hits", "predicted", "labelled")
    )
    micro = classification.rates(hits.sum(), predicted.sum(), labelled=labelled.sum())
    macro = classification.rates(hits, predicted, labelled=labelled)
    for average, rates in {"micro": micro, "macro": macro}.items():
        figures |= {f"{name}_{average}": float(np.mean(value)) for name, value in rates.items()}
    return figures


def score(predictions, labels, *, groups=None):
    """Figures of one list of predictions `[n c]` and labels `[n c]`; a group adds ``subset_accuracy/GROUP``.

    The answer to a record whose labels are all -1, since one of them is unknown, is wrong and counts for no class.
    """
    exact.check_lengths(predictions, labels, groups=groups)
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    known = (labels >= 0).all(axis=1)
    figures = finish(sums(predictions, labels, weights=known) | {"examples": len(labels)})
    right = ((predictions > 0) == (labels > 0)).all(axis=1) & known
    for group, mine in exact.places_of(groups).items():
        figures[f"subset_accuracy/{group}"] = float(right[mine].mean())
    return figures


def per_class(predictions, labels, *, names):
    """``{name: {"precision", "recall", "f1", "support"}}`` of predictions and labels `[n c]`; see `finish`."""
    predicted, labelled = np.asarray(predictions) > 0, np.asarray(labels) > 0
    support = labelled.sum(0)
    found = classification.rates((predicted & labelled).sum(0), predicted.sum(0), labelled=support)
    return classification.by_name(found, support, names=names)


def fit_thresholds(probabilities, labels):
    """For each class the probability from which it counts as predicted, so that its F1 on these records is highest.

    Candidates lie halfway between neighbouring probabilities; of equals, the one next to 0.5 is taken, which is also
    that of a class without a record (Lipton et al. 2014, arXiv 1402.1892, on thresholds for F1).

    Args:
        probabilities: `[n c]`.
        labels: `[n c]`, above 0 for the classes of a record.

    Returns:
        `[c]` float64.
    """
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels) > 0
    found = np.full(probabilities.shape[1], 0.5)
    for k in np.flatnonzero(labels.any(axis=0)):
        order = np.argsort(-probabilities[:, k], kind="stable")
        sorted_, hits = probabilities[order, k], labels[order, k].cumsum()
        f1 = 2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])
        cut = (sorted_ + np.append(sorted_[1:], 0.0)) / 2
        f1[:-1][sorted_[:-1] == sorted_[1:]] = -1  # no threshold lies between equal probabilities
        best = np.flatnonzero(f1 >= f1.max() - 1e-12)
        found[k] = cut[best[np.argmin(np.abs(cut[best] - 0.5))]]
    return found
