"""DoRA: its trained magnitude. `test_peft.py` compares logits and gradients with PEFT's."""

import jax
import jax.numpy as jnp
import numpy as np

from lwt.layers import linear
from lwt.reparam import dora
from tests.reparam import sizes


def test_counts():
    assert sizes.trained(dora.DoRA(rank=8), sizes.shapes(sizes.SEQ2SEQ, 128)) == 73_728 + 36 * 128


def test_the_magnitude_is_the_norm_of_every_column(base, moved):
    reparam = dora.DoRA(rank=2, targets=".*fc1/kernel")
    name = "encoder/layer_0/mlp/fc1/kernel"
    adapter = moved(reparam.init(jax.random.key(0), base))
    columns = np.linalg.norm(linear.dense(reparam.expand(base, adapter, 0)[name]), axis=0)
    np.testing.assert_allclose(columns, np.abs(adapter[f"{name}/magnitude"]), rtol=1e-5)


def test_a_column_of_zeros_stays_zero():
    base = {"x_attention/query/kernel": jnp.zeros((4, 3))}
    reparam = dora.DoRA(rank=2)
    weights = reparam.expand(base, reparam.init(jax.random.key(0), base), 0)
    np.testing.assert_array_equal(linear.dense(weights["x_attention/query/kernel"]), 0)
