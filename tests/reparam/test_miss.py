"""MiSS: counts, and rows that repeat."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import miss
from tests.reparam import sizes


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(miss.MiSS(rank=8), base) == 6 * 3 * 8 * 768


def test_rows_repeat(base, moved):
    reparam = miss.MiSS(rank=5, targets=".*kernel")
    adapter = moved(reparam.init(jax.random.key(0), base))
    for name, w in reparam.expand(base, adapter, 0).items():
        if name.endswith("kernel"):
            update, b = linear.dense(w) - base[name], adapter[f"{name}/b"]
            np.testing.assert_allclose(update, [b[i % 5] for i in range(len(update))], atol=1e-6)
    with pytest.raises(
        errors.ConfigError, match=r"reparam.rank is 13 at .* of shape \(12, 20\); MiSS takes at most 12"
    ):
        miss.MiSS(rank=13, targets=".*key/kernel").init(jax.random.key(0), base)
