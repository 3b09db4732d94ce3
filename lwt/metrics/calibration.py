"""Measures how well probabilities match the share of right answers, and fits a temperature that brings them closer."""

import numpy as np

from lwt.metrics import exact

BINS = 15  # as in Guo et al. 2017
HOTTEST = 100.0  # bound of a temperature, and of its inverse


def softmax(logits):
    """Logits `[n c]` -> probabilities `[n c]` in float64."""
    logits = np.asarray(logits, np.float64)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def expected_calibration_error(probabilities, labels, *, bins=BINS):
    """``Σ_m |B_m|/n · |accuracy(B_m) - confidence(B_m)|``, from 0 (calibrated) to 1.

    The confidence of a record is its highest probability; B_m are the records whose confidence lies in
    ``((m-1)/bins, m/bins]`` (Naeini et al. 2015; Guo et al. 2017, arXiv 1706.04599, equation 3, with 15 bins).

    Args:
        probabilities: `[n c]`, whose rows sum to 1.
        labels: `[n]` class ids; an answer to a record of an unknown class (-1) is wrong.

    Raises:
        lwt.errors.DataError: the numbers of rows and labels differ.
    """
    exact.check_lengths(probabilities, labels)
    probabilities, labels = np.asarray(probabilities, np.float64), np.asarray(labels)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = np.bincount(place, weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / max(len(labels), 1))


def negative_log_likelihood(logits, labels, *, temperature=1.0):
    """``-mean log softmax(logits / T)[label]``, in nats per record, of `[n c]` logits and `[n]` class ids."""
    scaled = np.asarray(logits, np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    chosen = scaled[np.arange(len(scaled)), np.asarray(labels)]
    return float(np.mean(np.log(np.exp(scaled).sum(axis=1)) - chosen))


def fit_temperature(logits, labels):
    """The T from 1/100 to 100 for which ``softmax(logits / T)`` gives the labels the highest likelihood.

    Temperature scaling (Guo et al. 2017, arXiv 1706.04599, section 4.2): no answer changes. The negative log-likelihood
    is convex in 1/T, so its minimum is the only one.

    Args:
        logits: `[n c]`.
        labels: `[n]` class ids, all among the classes.
    """

    def loss(inverse):
        return negative_log_likelihood(logits, labels, temperature=1 / inverse)

    # In steps of a factor first: far from the minimum the loss is flat, and a search by its value would stop there.
    inverses = np.geomspace(1 / HOTTEST, HOTTEST, 41)
    best = int(np.argmin([loss(inverse) for inverse in inverses]))
    bounds = inverses[max(best - 1, 0)], inverses[min(best + 1, len(inverses) - 1)]
    from scipy import optimize  # imported late: a quarter of a second that other programs need not spend

    found = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6 * bounds[0]})
    return float(1 / found.x)
