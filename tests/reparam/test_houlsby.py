"""Adapter layers: the paper's formula and counts, and a run whose adapter answers and refuses to be merged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from lwt import errors
from lwt.export import bundle
from lwt.layers import linear
from lwt.reparam import houlsby
from lwt.runs import experiment
from lwt.training import train
from tests.reparam import sizes

QUERY = "encoder/layer_0/self_attention/query"


def test_counts():
    layers = [f"layer_{i}/attention" for i in range(24)]
    base = sizes.shapes(layers, 1024) | {
        f"layer_{i}/mlp/fc2/kernel": jax.ShapeDtypeStruct((4096, 1024), jnp.float32) for i in range(24)
    }
    assert sizes.trained(houlsby.Houlsby(rank=64), base) == 48 * (2 * 64 * 1024 + 64 + 1024)  # 2md + d + m for each


def test_the_formula(base, moved):
    reparam = houlsby.Houlsby(rank=3, targets=f"{QUERY}/kernel")
    adapter = moved(reparam.init(jax.random.key(0), base))
    weights, x = reparam.expand(base, adapter, 0), np.random.default_rng(0).normal(size=(2, 5, 12)).astype(np.float32)
    own = {name.rpartition("/")[2]: np.asarray(leaf) for name, leaf in adapter.items()}
    y = x @ np.asarray(base[f"{QUERY}/kernel"]) + np.asarray(base[f"{QUERY}/bias"])
    z = y @ own["down"] + own["down_bias"]
    expected = y + (z * special.ndtr(z)) @ own["up"] + own["up_bias"]
    found = linear.linear(x, weights[f"{QUERY}/kernel"], bias=weights[f"{QUERY}/bias"])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert {name for name in base if weights[name] is not base[name]} == {f"{QUERY}/kernel", f"{QUERY}/bias"}


def test_a_run_answers_and_is_not_merged(tiny, untrained, tmp_path):
    untrained(tiny(), tmp_path / "base")
    changes = {"reparam": {"name": "houlsby", "rank": 2}, "optimizer.trainable": ("adapter/.*",), "steps": 2}
    train.run(tiny({**changes, "init_from": f"{tmp_path}/base", "optimizer.learning_rate": 0.1}), tmp_path / "run")
    base, run = (experiment.load(tmp_path / name) for name in ("base", "run"))
    adapter = experiment.load(tmp_path / "run/adapter", base=base)
    losses = [found.evaluate()[0]["loss"] for found in (base, run, adapter)]
    assert losses[1] == losses[2] != losses[0] and len(run.predict(["sort 3 1 2"])) == 1
    with pytest.raises(errors.ConfigError, match="nonlinear adapter layer .* it cannot be merged"):
        bundle.write(run, tmp_path / "bundle")
