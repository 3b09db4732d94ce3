"""C3A: counts, circulant blocks, and that a block is a circular correlation."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import c3a
from tests.reparam import sizes

KEY = "encoder/layer_0/cross_attention/key/kernel"


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(c3a.C3A(), base) == 6 * 3 * 768
    assert sizes.trained(c3a.C3A(block_size=128), base) == 6 * 3 * 768 * 768 // 128


def test_blocks_are_circulant(base, moved):
    reparam = c3a.C3A(targets=(KEY,))
    adapter = moved(reparam.init(jax.random.key(0), base))
    update = 12 * np.array(linear.dense(reparam.expand(base, adapter, 0)[KEY]) - base[KEY])
    vectors = np.array(adapter[f"{KEY}/circulant"])
    assert vectors.shape == (3, 5, 4)
    for i, row in enumerate(vectors):
        for o, c in enumerate(row):
            x, block = np.arange(4.0) ** 2, update[4 * i : 4 * i + 4, 4 * o : 4 * o + 4]
            np.testing.assert_allclose(block, [[c[(j - t) % 4] for t in range(4)] for j in range(4)], atol=1e-5)
            wanted = np.fft.ifft(np.conj(np.fft.fft(c)) * np.fft.fft(x)).real
            np.testing.assert_allclose(x @ block, wanted, atol=1e-4)
    with pytest.raises(errors.ConfigError, match=r"block_size is 8 at .*\(12, 20\); it has to divide 4, or be 0"):
        c3a.C3A(block_size=8, targets=(KEY,)).init(jax.random.key(0), base)
