"""VeRA: counts, the shared random matrices, and that a seed gives them back."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import vera
from tests.reparam import sizes


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(vera.VeRA(rank=256, targets=("query", "value")), base) == 6 * 2 * (256 + 768)


def test_narrow_targets_take_a_part_of_what_the_widest_uses(base, moved):
    reparam = vera.VeRA(rank=3, targets=".*kernel")
    adapter = moved(reparam.init(jax.random.key(0), base))
    weights, (a, b) = reparam.expand(base, adapter, 0), reparam.basis(20, 20)
    for name in (name for name in base if name.endswith("kernel")):
        (n_in, n_out), d, s = base[name].shape, adapter[f"{name}/lambda_d"], adapter[f"{name}/lambda_b"]
        expected = np.array(base[name]) + (a[:n_in] * np.array(d)) @ (b[:, :n_out] * np.array(s))
        np.testing.assert_allclose(linear.dense(weights[name]), expected, atol=1e-6)


def test_the_matrices_follow_from_the_seed():
    (a, b), (other, _) = vera.VeRA(rank=4).basis(8, 6), vera.VeRA(rank=4, seed=1).basis(8, 6)
    assert a.shape == (8, 4) and b.shape == (4, 6) and not np.allclose(a, other)
    np.testing.assert_allclose(a[0], [0.0315722, -0.2986452, -0.3441077, -0.1224849], atol=1e-6)  # the same for ever
    with pytest.raises(errors.ConfigError, match="reparam.seed is -1; it has to be an integer of 0 or more"):
        vera.VeRA(seed=-1)


def test_a_start_without_a_gradient_is_refused():
    with pytest.raises(errors.ConfigError, match="reparam.start_of_d is 0; with it, neither d nor s has a gradient"):
        vera.VeRA(start_of_d=0.0)
