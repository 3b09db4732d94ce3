"""IA3: counts, and what its vectors scale."""

import jax
import numpy as np

from lwt.attention import kv_projection
from lwt.layers import linear
from lwt.models import bert
from lwt.reparam import houlsby, ia3
from lwt.runs import assembly
from tests.reparam import sizes

QUERY = "encoder/layer_0/self_attention/query"


def test_counts():
    base = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    assert sizes.trained(ia3.IA3(targets=("key", "value")), base) == 6 * 2 * 768


def test_the_defaults_reach_the_attention_of_kv_projection():
    model = bert.Bert(16, width=8, heads=2, hidden=6, layers=1, max_length=8, attention=kv_projection.Attention)
    base = assembly.init_weights(model, jax.random.key(0))
    parts = {name.split("/")[-3] for name in ia3.IA3().init(jax.random.key(0), base)}
    assert parts == {"fc2", "full"}
    assert {name.split("/")[-3] for name in houlsby.Houlsby().init(jax.random.key(0), base)} == {"fc2", "full"}


def test_outputs_are_scaled_with_their_bias_and_inputs_without(base, moved):
    reparam = ia3.IA3(targets=".*(query|fc1)/kernel", feedforward=("fc1",))
    adapter = moved(reparam.init(jax.random.key(0), base))
    assert {name.rpartition("/")[0]: leaf.shape for name, leaf in adapter.items()} == {
        f"{QUERY}/kernel": (12,),
        "encoder/layer_0/mlp/fc1/kernel": (12,),
        "encoder/layer_1/self_attention/query/kernel": (12,),
    }
    weights, scale = reparam.expand(base, adapter, 0), np.array(adapter[f"{QUERY}/kernel/scale"])
    np.testing.assert_allclose(
        linear.dense(weights[f"{QUERY}/kernel"]), base[f"{QUERY}/kernel"] * scale[None], rtol=1e-6
    )
    np.testing.assert_allclose(weights[f"{QUERY}/bias"], base[f"{QUERY}/bias"] * scale, rtol=1e-6)
    fc1 = "encoder/layer_0/mlp/fc1/kernel"
    np.testing.assert_allclose(
        linear.dense(weights[fc1]), np.array(adapter[f"{fc1}/scale"])[:, None] * base[fc1], rtol=1e-6
    )
