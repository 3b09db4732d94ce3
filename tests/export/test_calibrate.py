"""The ranges of inputs, by hand and from a run."""

import numpy as np
import pytest

from lwt import errors
from lwt.export import calibrate


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("calibrate"))


def test_limits_are_those_of_the_records(run):
    """The largest input of a layer, by hand from the arrays of one batch; a percentile clips some tokens."""
    name = "encoder/layer_0/self_attention/query/kernel"
    batch = next(iter(run.batches(limit=4)))
    x = np.asarray(run.weights["embed/embedding"])[batch["source"]] * run.model.width**0.5
    rates = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = batch["source_positions"][..., None] * rates
    x += np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(x.shape)
    by_hand = np.abs(x).max(-1)[batch["source_segments"] > 0]
    whole = calibrate.limits(run, records=4)[f"{name}/limit"]
    assert float(whole) == pytest.approx(by_hand.max(), rel=1e-5)
    half = calibrate.limits(run, records=4, percentile=50)[f"{name}/limit"]
    assert float(half) == pytest.approx(np.percentile(by_hand, 50), rel=1e-5) and half < whole
    with pytest.raises(errors.ConfigError, match="--percentile=0 must be above 0"):
        calibrate.limits(run, percentile=0)
    with pytest.raises(errors.ConfigError, match="--calibrate=-1 must be a number of records"):
        calibrate.limits(run, records=-1)
