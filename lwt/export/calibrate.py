"""Measures the ranges of linear layers' inputs: the limits of statically rounded activations."""

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.layers import listen

RECORDS = 256


def limits(experiment, *, records=RECORDS, percentile=100.0, data=""):
    """``{"NAME/limit": float32 scalar}`` for every kernel NAME of a linear layer, in the form of `quantize.Quantize`.

    The limit is a percentile, over tokens (or patches, or pixels), of max |x|, where x is one token's input to the
    layer; padding is left out. At 100 nothing in the calibration data is clipped; a lower percentile clips the tokens
    beyond it and rounds the others more finely.

    Args:
        experiment: an `experiment.Experiment`.
        records: the number of records; 0: all.
        percentile: in (0, 100].
        data: ``KIND:NAME@SPLIT``; "": the run's validation set.

    Raises:
        lwt.errors.ConfigError: `records` or the percentile is out of range.
    """
    if records < 0:
        raise errors.ConfigError(f"--calibrate={records} must be a number of records, or 0 for all")
    if not 0 < percentile <= 100:
        raise errors.ConfigError(f"--percentile={percentile:g} must be above 0 and up to 100")
    names = [name for name in experiment.weights if name.endswith("/kernel")]

    def largest(x, real):
        return jnp.abs(x).max(-1), real

    batches, seen = experiment.batches(data, limit=records), {}
    for _, summaries in listen.summaries(
        experiment.model, experiment.weights, batches=batches, names=names, summary=largest
    ):
        for name, (sizes, real) in summaries.items():
            seen.setdefault(name, []).append(sizes[real])
    return {
        f"{name}/limit": jnp.asarray(np.percentile(np.concatenate(sizes), percentile), jnp.float32)
        for name, sizes in seen.items()
    }
