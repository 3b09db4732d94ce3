"""SingLoRA: counts, the formula, its ramp and its symmetry."""

import jax
import numpy as np

from lwt.layers import linear
from lwt.reparam import singlora
from tests.reparam import sizes


def test_counts():
    distilbert = [f"layer_{i}/self_attention" for i in range(6)]
    assert sizes.trained(singlora.SingLoRA(rank=8), sizes.shapes(distilbert, 768)) == 110_592


def test_formula_ramp_and_symmetry(base):
    reparam = singlora.SingLoRA(rank=3, alpha=6.0, ramp=10, targets=".*kernel")
    adapter = reparam.init(jax.random.key(1), base)
    for step, u in ((0, 0), (5, 0.5), (10, 1), (99, 1)):
        weights = reparam.expand(base, adapter, step)
        for name in (n for n in base if n.endswith("kernel")):
            n_in, n_out = base[name].shape
            a = np.array(adapter[f"{name}/a"])
            assert a.shape == (max(n_in, n_out), 3)
            expected = np.array(base[name]) + u * 2 * a[:n_in] @ a[:n_out].T
            np.testing.assert_allclose(linear.dense(weights[name]), expected, atol=1e-6)

    def loss(adapter, step):
        return sum((linear.dense(w) ** 2).sum() for w in reparam.expand(base, adapter, step).values())

    assert all((g == 0).all() for g in jax.grad(loss)(adapter, 0).values())
    assert all((g != 0).any() for g in jax.grad(loss)(adapter, 1).values())
