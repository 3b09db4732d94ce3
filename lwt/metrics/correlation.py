"""Errors and correlations of predicted and true values. They need all records at once, so have no sums."""

import logging
import math

import numpy as np

from lwt import errors
from lwt.metrics import exact

LOG = logging.getLogger(__name__)


def pearson(predictions, references):
    """``cov(x, y) / (σ_x σ_y)`` of two lists; 0 where one is constant, since it then says nothing about the other.

    Raises:
        lwt.errors.DataError: the lists differ in length or hold fewer than two records.
        lwt.errors.NotFinite: a value is not finite; the message names the first one.
    """
    return _correlation("pearsonr", predictions, references)


def spearman(predictions, references):
    """Pearson's correlation of the ranks; equal values share the mean of their ranks. Raises as `pearson` does."""
    return _correlation("spearmanr", predictions, references)


def error_figures(predictions, references):
    """``mae`` (mean absolute error), ``rmse`` (root of the mean squared error) and ``r2``, equal to scikit-learn's.

    R² is ``1 - Σ (y-p)² / Σ (y-mean(y))²``; of constant references it is 1 if all are met, and otherwise 0.
    """
    exact.check_lengths(predictions, references)
    p, y = np.asarray(predictions, np.float64), np.asarray(references, np.float64)
    squared, spread = float(((y - p) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    r2 = 1 - squared / spread if spread > 0 else float(squared == 0)
    return {"mae": float(np.abs(y - p).mean()), "rmse": math.sqrt(squared / len(y)), "r2": r2}


def score(predictions, references, *, groups=None):
    """``pearson`` and ``spearman`` of a list of predictions, and ``examples``; of one record, only these.

    Args:
        groups: the group of each record, or None; adds ``spearman/GROUP`` for groups of two records or more, and logs
            which groups are smaller.
    """
    exact.check_lengths(predictions, references, groups=groups)
    x, y = np.asarray(predictions), np.asarray(references)
    figures = {"examples": len(y)}
    if len(y) == 1:
        LOG.warning("pearson and spearman are left out: there is one record, and a correlation needs two")
    else:
        figures = {"pearson": pearson(x, y), "spearman": spearman(x, y)} | figures
    for group, mine in exact.places_of(groups).items():
        if len(mine) > 1:
            figures[f"spearman/{group}"] = spearman(x[mine], y[mine])
        else:
            LOG.warning("spearman/%s is left out: the group has one record, and a correlation needs two", group)
    return figures


def _correlation(name, predictions, references):
    """``scipy.stats.NAME(x, y).statistic`` of both sides in float64, after checking them."""
    exact.check_lengths(predictions, references)
    if len(references) < 2:
        raise errors.DataError(f"a correlation needs at least two records, not {len(references)}")
    pair = np.asarray(predictions, np.float64), np.asarray(references, np.float64)
    for what, values in zip(("prediction", "reference"), pair):
        if not np.isfinite(values).all():
            first = int(np.argmin(np.isfinite(values)))
            raise errors.NotFinite(f"{what} {first} (counted from 0) is {values[first]}, not a number to correlate")
    if any(values.min() == values.max() for values in pair):
        return 0.0
    # By powers of two, which round nothing, so that the squares of very large and very small numbers stay finite.
    pair = [np.ldexp(values, -np.frexp(np.abs(values).max())[1]) for values in pair]
    from scipy import stats  # imported late: half a second that other programs need not spend

    return float(getattr(stats, name)(*pair).statistic)
