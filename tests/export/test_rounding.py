"""Calibrated rounding changes the outputs of layers less than the nearest integers do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.export import quantize, rounding
from lwt.layers import linear, listen
from lwt.reparam.compression import quantize as reparam
from lwt.runs import integer_file

NAME = "encoder/layer_0/mlp/fc2/kernel"


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("rounding"))


def test_outputs_change_less(run, tmp_path):
    used = reparam.Quantize(format="int4", block=16)
    nearest = quantize.weights(run, used)
    rounded = rounding.calibrated(run, nearest, records=8)
    batch = jax.tree.map(jnp.asarray, next(iter(run.batches(limit=8))))
    x = listen.inputs(run.model, run.weights, batch=batch, names=[NAME])[NAME]
    x = np.asarray(x)[np.asarray(listen.real(NAME, batch, x=x))]
    errors_of = [np.square(x @ (linear.dense(w[NAME]) - run.weights[NAME])).mean() for w in (nearest, rounded)]
    assert errors_of[1] < 0.8 * errors_of[0]
    for name, node in rounded.items():
        if name.endswith(("kernel", "embedding")):
            np.testing.assert_array_equal(node.scales, nearest[name].scales)
            same = np.array_equal(node.values, nearest[name].values)
            assert same == name.endswith("embedding") and np.abs(node.values).max() <= 7
    quantize.export(run, tmp_path / "int4.safetensors", quantization=used, calibration={"records": 8})
    stored = integer_file.load(tmp_path / "int4.safetensors")
    np.testing.assert_array_equal(stored[NAME].values, rounded[NAME].values)


def test_floats_are_refused(run):
    with pytest.raises(errors.ConfigError, match="calibrated rounding is for integers without outliers"):
        rounding.calibrated(run, quantize.weights(run, reparam.Quantize(format="fp8")))


def test_factors_are_refused(run):
    factors = {NAME: linear.Factors(np.ones((2, 1)), np.ones((1, 2)))}
    with pytest.raises(errors.ConfigError, match="calibrated rounding is for whole kernels, not for two factors"):
        rounding.calibrated(run, factors)
