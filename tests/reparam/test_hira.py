"""HiRA: the formula, and the rank of its update."""

import jax
import numpy as np

from lwt.layers import linear
from lwt.reparam import hira


def test_the_update_is_a_hadamard_product_of_high_rank(base, moved):
    reparam = hira.HiRA(rank=1, targets=".*kernel")
    adapter = moved(reparam.init(jax.random.key(0), base))
    for name, w in reparam.expand(base, adapter, 0).items():
        if name.endswith("kernel"):
            update = linear.dense(w) - base[name]
            product = np.array(adapter[f"{name}/a"]) @ np.array(adapter[f"{name}/b"])
            np.testing.assert_allclose(update, np.array(base[name]) * product, atol=1e-6)
            assert np.linalg.matrix_rank(update, tol=1e-6) > 5
