"""MAMBA: its blocks by hand, and causality by gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.layers import norm, ssm
from lwt.models import mamba

SMALL = dict(vocabulary=24, max_length=12, width=8, layers=2)
BATCH = {"ids": jnp.array([[2, 5, 6, 4, 7, 4]]), "segments": jnp.array([[1, 1, 1, 1, 2, 2]])}


def test_a_block_adds_the_mixer_of_its_norm(weights_of, run):
    model = mamba.Mamba(**SMALL)
    params = weights_of(model)["params"]
    table = params["embed"]
    x = table["token"][BATCH["ids"]] + table["position"][None, :6] + table["segment"][BATCH["segments"]]
    for i in range(2):
        block = params[f"block_{i}"]
        normed = norm.RMSNorm(epsilon=1e-5).apply({"params": block["norm"]}, x)
        x = x + ssm.Mixer(8, 6, 4).apply({"params": block["mixer"]}, normed)
    np.testing.assert_allclose(run(model, {"params": params}, BATCH), x, rtol=1e-5, atol=1e-5)


def test_a_state_depends_on_its_own_and_earlier_tokens(weights_of, run):
    model = mamba.Mamba(**SMALL)
    params = weights_of(model)["params"]

    def state(position):
        changed = {**params, "embed": {**params["embed"], "position": position}}
        return run(model, {"params": changed}, BATCH)[0, 3].sum()

    gradient = jax.grad(state)(params["embed"]["position"])
    assert np.flatnonzero(np.abs(gradient).sum(-1)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("field", ["layers", "expansion", "state", "kernel_size"])
def test_sizes_below_1_are_named(field):
    with pytest.raises(errors.ConfigError, match=f"model.{field}=0 must be at least 1"):
        model = mamba.Mamba(**{**SMALL, field: 0})
        jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))
