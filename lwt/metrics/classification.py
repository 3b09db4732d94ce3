"""Accuracy, Matthews correlation, precision, recall and F1, from counts that add up over batches.

These figures need three counts per class, not the whole confusion matrix: how often it was predicted, how often it was
the label, and how often both.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.metrics import exact


@functools.partial(jax.jit, static_argnames="classes")
def sums(predictions, labels, *, classes, weights=None):
    """Counts over a batch.

    Args:
        predictions: `[b]` class ids.
        labels: `[b]` class ids; one outside 0..classes-1 (such as -1) belongs to a class the model does not know, so
            any prediction is wrong.
        classes: c.
        weights: `[b]`, 0 for filler rows; None counts every row.

    Returns:
        Float32 scalars ``{"examples", "correct"}`` and, per class k, ``"hits/k"``, ``"predicted/k"``, ``"labelled/k"``.
    """
    weights = jnp.ones(len(labels)) if weights is None else jnp.asarray(weights, jnp.float32)
    predicted, labelled = (weights[:, None] * jax.nn.one_hot(ids, classes) for ids in (predictions, labels))
    counts = {
        "hits": (predicted * jax.nn.one_hot(labels, classes)).sum(0),
        "predicted": predicted.sum(0),
        "labelled": labelled.sum(0),
    }
    flat = {f"{name}/{k}": count[k] for name, count in counts.items() for k in range(classes)}
    return {"examples": weights.sum(), "correct": counts["hits"].sum()} | flat


def finish(sums):
    """Counts -> figures: shares from 0 to 1 (``mcc`` from -1 to 1), equal to scikit-learn's.

    A division by zero gives 0. Means are over the classes that were predicted or labelled at least once; labels of
    unknown classes form one more class, which is never predicted.

    Returns:
        ``accuracy``, ``examples``; with class counts also ``mcc`` (Gorodkin 2004, the R_K statistic; for two classes
        Matthews' coefficient), ``precision_macro``, ``recall_macro``, ``f1_macro``, and the same with ``_weighted`` (by
        labels); for two classes also ``precision``, ``recall`` and ``f1`` of class 1, as in GLUE.

    Raises:
        lwt.errors.DataError: there are no examples.
    """
    examples = float(sums["examples"])
    if not examples > 0:
        raise errors.DataError("no record was classified: the split is empty")
    figures = {"accuracy": float(sums["correct"]) / examples, "examples": int(examples)}
    classes = sum(name.startswith("hits/") for name in sums)
    if not classes:
        return figures
    hits, predicted, labelled = (
        np.array([float(sums[f"{name}/{k}"]) for k in range(classes)] + [0.0])
        for name in ("hits", "predicted", "labelled")
    )
    labelled[-1] = examples - labelled.sum()  # unknown classes
    each = rates(hits, predicted, labelled=labelled)
    occurs = predicted + labelled > 0
    figures["mcc"] = _matthews(hits, predicted, labelled, examples)
    for name, values in each.items():
        figures[f"{name}_macro"] = float(_ratio(values[occurs].sum(), occurs.sum()))
        figures[f"{name}_weighted"] = float(values @ labelled) / examples
        if classes == 2:
            figures[name] = float(values[1])
    return figures


def score(predictions, labels, *, classes=None, groups=None):
    """Figures of one list of predictions; see `sums` and `finish`.

    Args:
        classes: c; None infers it from the highest id, but takes at least two.
        groups: the group of each record, or None; adds ``accuracy/GROUP``.
    """
    exact.check_lengths(predictions, labels, groups=groups)
    predictions, labels = np.asarray(predictions, np.int32), np.asarray(labels, np.int32)
    if classes is None:
        classes = 1 + int(max(1, predictions.max(initial=0), labels.max(initial=0)))
    figures = finish(jax.device_get(sums(predictions, labels, classes=classes)))
    right = predictions == labels
    for group, mine in exact.places_of(groups).items():
        figures[f"accuracy/{group}"] = float(right[mine].mean())
    return figures


def confusion(predictions, labels, *, classes):
    """`[c+1 c]` counts: row i has the predictions for records of class i, the last row those for unknown classes."""
    predictions, labels = np.asarray(predictions, np.int64), np.asarray(labels, np.int64)
    rows = np.where((labels >= 0) & (labels < classes), labels, classes)
    return np.bincount(rows * classes + predictions, minlength=(classes + 1) * classes).reshape(classes + 1, classes)


def per_class(counts, *, names):
    """``{name: {"precision", "recall", "f1", "support"}}`` from the counts of `confusion`, equal to scikit-learn's.

    Support is the number of records of the class; a division by zero gives 0.
    """
    hits, predicted, support = np.diagonal(counts), counts.sum(0), counts.sum(1)[:-1]
    return by_name(rates(hits, predicted, labelled=support), support, names=names)


def rates(hits, predicted, *, labelled):
    """``{"precision", "recall", "f1"}`` of counts, or of arrays of counts; a division by zero gives 0."""
    return {
        "precision": _ratio(hits, predicted),
        "recall": _ratio(hits, labelled),
        "f1": _ratio(2 * hits, predicted + labelled),
    }


def by_name(rates, support, *, names):
    """``{name: {"precision", "recall", "f1", "support"}}`` from the `rates` of all classes, arrays `[c]`."""
    return {
        name: {key: float(values[i]) for key, values in rates.items()} | {"support": int(support[i])}
        for i, name in enumerate(names)
    }


def _ratio(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _matthews(hits, predicted, labelled, examples):
    together = hits.sum() * examples - predicted @ labelled
    spread = (examples**2 - predicted @ predicted) * (examples**2 - labelled @ labelled)
    return float(together / np.sqrt(spread)) if spread > 0 else 0.0
