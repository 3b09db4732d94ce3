"""The two-pass top-k is `jax.lax.top_k`, ties and forbidden ids included."""

import jax
import numpy as np
import pytest

from lwt.layers import top_k


@pytest.mark.parametrize("size", [640, 100])  # in blocks of 64, and not
@pytest.mark.parametrize("k", [1, 3, 9, 20])
def test_equals_lax_top_k(size, k):
    values = np.random.default_rng(k).integers(0, 30, (50, size)).astype(np.float32)  # few values: many ties
    allowed = np.ones(size, bool)
    allowed[[0, 2]] = allowed[70:75] = allowed[size - 30 :] = False
    for mask in (None, allowed):
        expected = jax.lax.top_k(values if mask is None else np.where(mask, values, -np.inf), k)
        got = jax.jit(lambda x, mask=mask: top_k.top_k(x, k, allowed=mask))(values)
        np.testing.assert_array_equal(got[0], expected[0])
        np.testing.assert_array_equal(got[1], expected[1])
