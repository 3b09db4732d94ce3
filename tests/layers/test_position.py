"""Sinusoidal positions, against the formula."""

import jax.numpy as jnp
import numpy as np

from lwt.layers import position


def test_sinusoids_by_hand():
    table = position.sinusoidal(jnp.array([0, 1, 7]), 4)
    expected = [[np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)] for p in (0, 1, 7)]
    np.testing.assert_allclose(table, expected, atol=1e-6)
