"""OFT: rotations keep the lengths of columns and the angles between them."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import oft
from tests.reparam import sizes


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(oft.OFT(block_size=32), base) == 6 * 3 * 24 * 32 * 31 // 2


@pytest.mark.parametrize(
    "size, wanted, found",
    [(768, 32, 32), (12, 32, 12), (12, 5, 4), (20, 8, 10), (7, 3, 7), (127, 32, 127), (134, 32, 2), (1, 4, 1)],
)
def test_blocks_divide_the_inputs(size, wanted, found):
    assert oft.nearest_divisor(size, wanted) == found


def test_a_block_of_one_input_is_refused():
    with pytest.raises(errors.ConfigError, match="reparam.block_size is 1; a rotation needs at least 2 inputs"):
        oft.OFT(block_size=1)


def test_a_series_without_a_rotation_is_refused():
    with pytest.raises(errors.ConfigError, match="reparam.neumann is 1; it has to be 0, or at least 2 terms"):
        oft.OFT(neumann=1)


@pytest.mark.parametrize("neumann, tolerance", [(0, 1e-5), (12, 1e-3)])
def test_products_of_columns_do_not_change(base, moved, neumann, tolerance):
    reparam = oft.OFT(block_size=4, neumann=neumann, targets=".*kernel")
    adapter = moved(reparam.init(jax.random.key(0), base))
    for name, w in reparam.expand(base, adapter, 0).items():
        if name.endswith("kernel"):
            before, after = np.array(base[name]), np.array(linear.dense(w))
            np.testing.assert_allclose(after.T @ after, before.T @ before, atol=tolerance)
            assert np.abs(after - before).max() > 0.01
            blocks = [rows.T @ rows for rows in np.split(after, len(after) // 4)]
            for block, rows in zip(blocks, np.split(before, len(before) // 4), strict=True):
                np.testing.assert_allclose(block, rows.T @ rows, atol=tolerance)
