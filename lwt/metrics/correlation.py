"""Pearson's and Spearman's correlation of predicted with true values. No sums over records: they need all of them."""

import numpy as np

from lwt import errors
from lwt.metrics import exact


def pearson(predictions, references):
    """``cov(x, y) / (σ_x σ_y)``; 0 where one side is constant, for then it tells nothing of the other.

    Args:
        predictions: `[n]`.
        references: `[n]`.

    Raises:
        lwt.errors.DataError: the lists differ in length, or hold fewer than two records.
        lwt.errors.NotFinite: a value is not a number; names the first.
    """
    x, y = _values(predictions, references)
    if x.min() == x.max() or y.min() == y.max():  # asked before the mean is rounded
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1, 1))


def spearman(predictions, references):
    """Pearson's correlation of the ranks; equal values share the mean of their ranks. Raises as `pearson` does."""
    x, y = _values(predictions, references)
    return pearson(ranks(x), ranks(y))


def ranks(values):
    """1 for the least value of `[n]`, n for the greatest; equal values share the mean of their ranks."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]


def score(predictions, references, *, groups=None):
    """``pearson`` and ``spearman`` of a list of predictions, and ``examples``.

    Args:
        groups: the kind of each record, or None; adds ``spearman/GROUP``.
    """
    exact.check_lengths(predictions, references, groups)
    x, y = np.asarray(predictions), np.asarray(references)
    figures = {"pearson": pearson(x, y), "spearman": spearman(x, y), "examples": len(y)}
    for group in sorted(set(() if groups is None else groups)):
        mine = np.array([name == group for name in groups])
        figures[f"spearman/{group}"] = spearman(x[mine], y[mine])
    return figures


def _values(predictions, references):
    """Both sides as float64 arrays, checked."""
    exact.check_lengths(predictions, references)
    if len(references) < 2:
        raise errors.DataError(f"a correlation needs at least two records, not {len(references)}")
    pair = np.asarray(predictions, np.float64), np.asarray(references, np.float64)
    for what, values in zip(("prediction", "reference"), pair):
        if not np.isfinite(values).all():
            first = int(np.argmin(np.isfinite(values)))
            raise errors.NotFinite(f"{what} {first} (counted from 0) is {values[first]}, not a number to correlate")
    return pair
