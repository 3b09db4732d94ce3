"""Both sides multiply the same matrices, forward and backward."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is in the extras `test` and `bench`")

from benchmarks import products


@pytest.mark.parametrize("dtype, error", [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_products_are_equal(dtype, error):
    calls = products.products(6, 4, 10, dtype=dtype)
    for name, shape in (("forward", (6, 10)), ("input", (6, 4)), ("weight", (4, 10))):
        own, theirs = calls[f"lwt, {name}"](), calls[f"PyTorch, {name}"]()
        assert own.shape == shape
        np.testing.assert_allclose(own, theirs.float(), rtol=error, atol=error)


def test_the_table_has_a_line_for_each_shape():
    lines = products.table([(2, 3, 4), (4, 3, 2)], dtype="float32", rounds=1).splitlines()
    assert lines[0].count("|") == 8 and [line.split()[1] for line in lines[2:]] == ["2x3x4", "4x3x2"]
