"""Rounds the weights of linear layers so that their outputs change least on records: calibrated rounding.

Source: Frantar et al. 2023, "GPTQ", arXiv 2210.17323, section 3: inputs one after the other, those with the largest
squares first, and the error of each is compensated by those that are still to be rounded. The scales stay.
"""

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.export import calibrate
from lwt.layers import linear, listen, quantized_weight

DAMPING = 0.01  # of the mean square of the inputs, added to each of their squares


def calibrated(experiment, weights, *, records=calibrate.RECORDS, data=""):
    """The quantized weights with other integers in the kernels of linear layers; tables keep theirs.

    Args:
        experiment: an `experiment.Experiment`, which gives the inputs and the weights before rounding.
        weights: flat dict with `quantized_weight.Quantized` nodes of these weights.
        records: the number of records; 0: all.
        data: ``KIND:NAME@SPLIT``; "": the run's validation set.

    Raises:
        lwt.errors.ConfigError: a kernel is quantized to floats, has outliers, or is the product of two factors.
    """
    if factors := next((name for name, w in weights.items() if isinstance(w, linear.Factors)), ""):
        raise errors.ConfigError(f"{factors!r}: calibrated rounding is for whole kernels, not for two factors")
    quantized = [name for name, w in weights.items() if isinstance(w, quantized_weight.Quantized)]
    names = [name for name in quantized if name.endswith("/kernel")]
    for name in names:
        if weights[name].format == "fp8" or weights[name].outliers is not None:
            raise errors.ConfigError(f"{name!r}: calibrated rounding is for integers without outliers")
    squares, batches = {}, experiment.batches(data, limit=records)
    found = listen.summaries(experiment.model, experiment.weights, batches=batches, names=names, summary=_squares)
    for _, summaries in found:
        for name, square in summaries.items():
            squares[name] = squares.get(name, 0) + np.asarray(square, np.float64)
    dense = {name: np.asarray(linear.dense(experiment.weights[name]), np.float64) for name in squares}
    rounded = {name: _rounded(dense[name], weights[name], squares=square) for name, square in squares.items()}
    return {**weights, **rounded}


def _squares(x, real):
    """``XᵀX`` `[in in]` of an input `[... in]`, where it is real."""
    rows = (x * real[..., None]).reshape(-1, x.shape[-1])
    return jnp.dot(rows.T, rows, precision="highest")


def _rounded(w, node, *, squares):
    """The node of a kernel `[in out]` with integers for inputs whose ``XᵀX`` is `squares`."""
    scales = np.asarray(node.replace(values=jnp.ones_like(node.values)).dense(), np.float64)
    top = quantized_weight.FORMATS[node.format][1]
    order = np.argsort(-np.diag(squares), kind="stable")
    squares = squares[np.ix_(order, order)]
    squares = squares + np.eye(len(w)) * (DAMPING * np.diag(squares).mean() + 1e-12)
    factor = np.linalg.cholesky(np.linalg.inv(squares)).T  # upper: row i says how the inputs after i make up for i
    left, values = w[order], np.zeros(w.shape)
    for i, at in enumerate(order):
        step = np.where(scales[at] > 0, scales[at], 1)
        values[at] = np.clip(np.round(left[i] / step), -top, top)
        error = (left[i] - values[at] * scales[at]) / factor[i, i]
        left[i + 1 :] -= factor[i, i + 1 :, None] * error
    return node.replace(values=jnp.asarray(values, node.values.dtype))
