"""Sinusoidal positions, against the formula, and the properties that "Implementing Transformers" proves of them."""

import jax.numpy as jnp
import numpy as np

from lwt.layers import position


def test_sinusoids_by_hand():
    table = position.sinusoidal(jnp.array([0, 1, 7]), 4)
    expected = [[np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)] for p in (0, 1, 7)]
    np.testing.assert_allclose(table, expected, atol=1e-6)


def test_a_shift_is_a_rotation_whatever_the_position():
    """Its appendix 1, property 1: ``PE(p + k) = M_k PE(p)``, also beyond the lengths of any training."""
    width, k, places = 16, 5, np.array([0, 3, 63, 500])
    angles = k / 10000 ** (np.arange(0, width, 2) / width)
    shift = np.zeros((width, width))
    for i, angle in enumerate(angles):
        rotation = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        shift[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = rotation
    before, after = (position.sinusoidal(jnp.array(at), width) for at in (places, places + k))
    np.testing.assert_allclose(after, before @ shift.T, atol=1e-4)


def test_wavelengths_are_a_geometric_progression():
    """Property 2: from 2π to 2π·10000^(1-2/d), each 10000^(2/d) times the last."""
    width = 128
    first = np.asarray(position.sinusoidal(jnp.array([1]), width)[0], np.float64)
    waves = 2 * np.pi / np.arctan2(first[::2], first[1::2])  # over the angle of a step
    np.testing.assert_allclose(waves[[0, -1]], [2 * np.pi, 2 * np.pi * 10000 ** (1 - 2 / width)], rtol=1e-5)
    np.testing.assert_allclose(waves[1:] / waves[:-1], 10000 ** (2 / width), rtol=1e-5)
