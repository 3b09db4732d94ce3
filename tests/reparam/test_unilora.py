"""Uni-LoRA: one vector for all targets, an isometry, and what follows from the seed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import linear
from lwt.reparam import unilora
from tests.reparam import sizes

SHAPES = {"x": (6, 8), "y": (8, 5)}


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(unilora.UniLoRA(length=100, rank=4), base) == 100


def test_the_projection_is_an_isometry():
    found = unilora.UniLoRA(length=10, rank=2).places(SHAPES)
    sides = [side for both in found.values() for side in both]
    index, scale = (np.concatenate([side[i].reshape(-1) for side in sides]) for i in (0, 1))
    projection = np.zeros((2 * (6 + 8 + 8 + 5), 10))
    projection[np.arange(len(index)), index] = scale
    np.testing.assert_allclose(projection.T @ projection, np.eye(10), atol=1e-6)
    assert {*np.bincount(index).tolist()} == {5, 6}  # every entry as often as the others


@pytest.mark.parametrize("centred", [True, False])
def test_step_0(base, centred):
    reparam = unilora.UniLoRA(length=20, rank=2, bound=0.5, centred=centred)
    adapter = reparam.init(jax.random.key(0), base)
    moved = max(np.abs(linear.dense(w) - base[name]).max() for name, w in reparam.expand(base, adapter, 0).items())
    assert (moved < 1e-6) == centred and moved < 0.1
    np.testing.assert_array_equal(adapter["theta"], reparam.init(jax.random.key(5), base)["theta"])
    zero = reparam.expand(base, {"theta": jnp.zeros(20)}, 0)
    assert (max(np.abs(linear.dense(w) - base[name]).max() for name, w in zero.items()) > 1e-4) == centred
