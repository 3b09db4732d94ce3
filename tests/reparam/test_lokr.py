"""LoKr: how sizes are factorised, and the formula."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import lokr


@pytest.mark.parametrize(
    "size, factor, found",
    [(256, -1, (16, 16)), (128, -1, (8, 16)), (127, -1, (1, 127)), (128, 4, (4, 32)), (12, 5, (3, 4)), (7, 7, (7, 1))],
)
def test_factors(size, factor, found):
    assert lokr.factors(size, factor) == found


def test_a_factor_of_zero_is_refused():
    with pytest.raises(errors.ConfigError, match="reparam.factor is 0; it has to be a whole number of 1 or more, or"):
        lokr.LoKr(factor=0)


def test_formula(base, moved):
    reparam = lokr.LoKr(rank=1, alpha=3.0, targets=".*(query|value)/kernel")
    adapter = moved(reparam.init(jax.random.key(0), base))
    weights = reparam.expand(base, adapter, 0)
    for name in (name.removesuffix("/w1") for name in adapter if name.endswith("/w1")):
        w1, a, b = (np.array(adapter[f"{name}/{kind}"]) for kind in ("w1", "a", "b"))
        assert w1.shape[0] * a.shape[0] == base[name].shape[0] and a.shape[1] == 1
        np.testing.assert_allclose(linear.dense(weights[name]), base[name] + 3 * np.kron(w1, a @ b), atol=1e-6)
    whole = lokr.LoKr(rank=8, targets=".*key/kernel").init(jax.random.key(0), base)
    assert sorted(leaf.rpartition("/")[2] for leaf in whole) == ["w1", "w2"]
