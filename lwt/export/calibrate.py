"""Ranges of what meets the weights of a model, from records: the limits of statically rounded activations."""

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.layers import listen

RECORDS = 256


def limits(opened, *, records=RECORDS, percentile=100.0, data=""):
    """``{"NAME/limit": float32 scalar}`` of every kernel NAME of a linear layer, as `reparam/quantize.py` takes them.

    The limit is that percentile over the tokens (or patches, or places of an image) of max |x|, x being what one of
    them gives to the layer; padding is left out. At 100 nothing of the calibration is clipped; below it, the tokens
    beyond are, and the others are rounded more finely.

    Args:
        opened: an `experiment.Experiment`.
        records: so many are taken; 0: all.
        percentile: above 0, up to 100.
        data: ``KIND:NAME@SPLIT``; "" for the run's validation set.

    Raises:
        lwt.errors.ConfigError: the percentile is out of its range.
    """
    if not 0 < percentile <= 100:
        raise errors.ConfigError(f"--percentile={percentile:g} should be above 0 and up to 100")
    names = [name for name in opened.weights if name.endswith("/kernel")]

    def largest(x, real):
        return jnp.abs(x).max(-1), real

    batches, seen = opened.batches(data, limit=records), {}
    for _, summaries in listen.summaries(opened.model, opened.weights, batches, names=names, summary=largest):
        for name, (sizes, real) in summaries.items():
            seen.setdefault(name, []).append(sizes[real])
    return {
        f"{name}/limit": jnp.asarray(np.percentile(np.concatenate(sizes), percentile), jnp.float32)
        for name, sizes in seen.items()
    }
