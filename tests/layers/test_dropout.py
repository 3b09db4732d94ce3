"""Dropout keeps its share and the mean, and neighbours are independent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_keeps_its_share_and_the_mean(rate):
    ones = jnp.ones((400, 500))
    y = dropout.Dropout(rate).apply({}, ones, train=True, rngs={"dropout": jax.random.key(0)})
    kept = float((y > 0).mean())
    assert abs(kept - (1 - rate)) < 1 / 512 + 4 * (rate * (1 - rate) / ones.size) ** 0.5
    assert abs(float(y.mean()) - 1) < 0.01
    assert set(np.unique(y)) == {0.0, np.float32(256 / dropout.kept_of_256(rate))}


def test_dropout_masks_are_uncorrelated_between_neighbours():
    """Four elements share a random word; they must not share their fate."""
    keep = np.array(dropout.keep_mask(jax.random.key(1), 0.5, shape=(100_000,))).astype(float) - 0.5
    for lag in (1, 2, 3, 4):
        assert abs((keep[lag:] * keep[:-lag]).mean()) < 4 * 0.25 / 100_000**0.5
