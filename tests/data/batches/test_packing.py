"""Packing: every pair fits its row, and little of a row is left empty."""

import numpy as np

from lwt.data.batches import packing


def test_packing_fits_and_wastes_little():
    rng = np.random.default_rng(0)
    source = rng.integers(2, 33, 3000)
    target = np.clip(source + rng.integers(-3, 4, 3000), 1, 32)
    row = packing.pack(source, target, 64)
    for side in (source, target):
        assert np.bincount(row, weights=side).max() <= 64
    assert set(row) == set(range(row.max() + 1))
    assert source.sum() / (64 * (row.max() + 1)) > 0.97
    assert packing.pack(np.array([64, 1, 1]), np.array([1, 64, 1]), 64).tolist().count(0) >= 1
