"""Quantization as a reparametrization: what is rounded, in evaluation and in training, alone and in chains."""

import jax
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear, quantized_weight
from lwt.reparam import compose, lora
from lwt.reparam.compression import quantize

QUERY, TABLE = "encoder/layer_0/self_attention/query/kernel", "embed/embedding"
KEY = jax.random.key(0)


def test_kernels_and_tables_become_integers_and_vectors_stay(base):
    weights = quantize.Quantize(targets=".*").expand(base, {}, 0)
    for name, w in weights.items():
        if name.endswith("bias"):
            assert w is base[name]
        else:
            assert isinstance(w, quantized_weight.Quantized) and w.values.dtype == np.int8 and w.axis == 0
    rows = quantize.Quantize(block=0).expand(base, {}, 0)
    assert rows[TABLE].scales.shape == (11, 1) and rows[QUERY].scales.shape == (1, 12)
    again = quantize.Quantize().expand(weights, {}, 0)
    assert again[QUERY] is weights[QUERY]


def test_aware_training_reaches_the_base_and_evaluates_the_integers(base, apply):
    ids = np.array([3, 0, 10])
    reparam = quantize.Quantize(format="int4", block=8, aware=True)

    def loss(base, key, reparam):
        return (apply(reparam.expand(base, {}, 0, key=key), ids) ** 2).sum()

    gradients = jax.grad(loss)(base, KEY, reparam)
    rounded = {name: linear.dense(w) for name, w in reparam.expand(base, {}, 0).items()}
    expected = jax.grad(lambda weights: (apply(weights, ids) ** 2).sum())(rounded)
    for name in base:  # straight through: the gradient at the rounded weights
        np.testing.assert_allclose(gradients[name], expected[name], rtol=1e-6)
        assert np.abs(gradients[name]).max() > 0
    np.testing.assert_allclose(loss(base, KEY, reparam), loss(base, None, reparam), rtol=1e-5)
    after = jax.grad(loss)(base, KEY, quantize.Quantize())
    assert all((np.abs(after[name]).max() > 0) == name.endswith("bias") for name in base)


def test_an_adapter_on_a_quantized_base(base, apply, moved):
    chain = compose.build({"name": "compose", "parts": ({"name": "quantize"}, {"name": "lora", "rank": 2})})
    adapter = moved(chain.init(KEY, base))
    weights = chain.expand(base, adapter, 0)
    assert isinstance(weights[QUERY], linear.LowRank) and isinstance(weights[QUERY].base, quantized_weight.Quantized)
    a, b = (np.asarray(adapter[f"1_lora/{QUERY}/{leaf}"], np.float64) for leaf in "ab")
    wanted = np.asarray(quantize.Quantize().expand(base, {}, 0)[QUERY].dense()) + 8 * a @ b
    np.testing.assert_allclose(linear.dense(weights[QUERY]), wanted, atol=1e-6)
    ids = np.array([3, 1])
    np.testing.assert_allclose(apply(linear.merge(weights), ids), apply(weights, ids), atol=1e-5)
    gradients = jax.grad(lambda leaves: (apply(chain.expand(base, leaves, 0, key=KEY), np.array([3, 1])) ** 2).sum())(
        adapter
    )
    assert all(np.abs(leaf).max() > 0 for leaf in gradients.values())


def test_an_adapter_before_it_is_rounded_in(base, moved):
    chain = compose.Compose((lora.LoRA(rank=2), quantize.Quantize()))
    adapter = moved(chain.init(KEY, base))
    merged = linear.dense(lora.LoRA(rank=2).expand(base, trees.subtree(adapter, "0_lora"), 0)[QUERY])
    node = chain.expand(base, adapter, 0)[QUERY]
    np.testing.assert_array_equal(node.values, quantized_weight.quantize(merged).values)


def test_integer_activations(base, apply):
    """Kernels multiply integers, in training what stands for them, and tables and uncalibrated kernels meet floats."""
    ids, dynamic = np.array([3, 0, 10]), quantize.Quantize(block=0, aware=True, activations="dynamic")
    nodes = dynamic.expand(base, {}, 0)
    assert all(nodes[name].integer_inputs == (name != TABLE) for name in base if not name.endswith("bias"))
    floats = {name: w.replace(integer_inputs=False) if linear.is_node(w) else w for name, w in nodes.items()}
    np.testing.assert_allclose(apply(nodes, ids), apply(floats, ids), atol=0.02)
    assert np.abs(apply(nodes, ids) - apply(floats, ids)).max() > 1e-5
    np.testing.assert_allclose(apply(dynamic.expand(base, {}, 0, key=KEY), ids), apply(nodes, ids), atol=1e-5)
    static = quantize.Quantize(block=0, activations="static").expand(floats, {f"{QUERY}/limit": np.float32(2)}, 0)
    assert static[QUERY].integer_inputs and static[QUERY].limit == 2
    assert [name for name, w in static.items() if getattr(w, "integer_inputs", False)] == [QUERY]
    with pytest.raises(errors.ConfigError, match="a run has no calibrated ranges; it must be 'dynamic'"):
        quantize.Quantize(block=0, activations="static").init(KEY, base)
    with pytest.raises(errors.ConfigError, match=f"{QUERY}' is already quantized to int8 with a scale per 8 weights"):
        dynamic.expand(quantize.Quantize(block=8).expand(base, {}, 0), {}, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activations": "dynamical", "block": 0}, "reparam.activations is 'dynamical'; did you mean 'dynamic'"),
        ({"activations": "dynamic"}, "format='int8', block=64 and outliers=0.0 must be 'int8' or 'int4', 0 and 0"),
        ({"activations": "static", "block": 0, "format": "fp8"}, "format='fp8'"),
        ({"format": "int3"}, "reparam.format is 'int3'; did you mean 'int8'"),
        ({"block": -1}, "reparam.block is -1"),
        ({"block": 6.5}, "reparam.block=6.5 should be of type int"),
        ({"outliers": 1.0}, r"reparam.outliers is 1.0; it has to be a share in \[0, 1\)"),
        ({"outliers": 0.1, "threshold": -6}, "reparam.threshold is -6"),
        ({"threshold": 6.0}, "reparam.outliers is 0: set it to the largest share"),
    ],
)
def test_wrong_configs(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        compose.build({"name": "quantize", **options})


def test_targets_that_cannot_be_rounded(base):
    with pytest.raises(errors.ConfigError, match="matches vectors only, such as .*query/bias"):
        quantize.Quantize(targets=".*bias").init(KEY, base)
    with pytest.raises(errors.ConfigError, match="matches no weight"):
        quantize.Quantize(targets="decoder.*").expand(base, {}, 0)


def test_factors_are_rounded_each(base, apply):
    factors = linear.Factors(base[QUERY][:, :3], base[QUERY][:3])
    aware = quantize.Quantize(block=4, aware=True)
    found = aware.expand({**base, QUERY: factors}, {}, 0)[QUERY]
    assert isinstance(found.a, quantized_weight.Quantized) and isinstance(found.b, quantized_weight.Quantized)

    def loss(a):
        weights = aware.expand({**base, QUERY: factors.replace(a=a)}, {}, 0, key=KEY)
        return (apply(weights, np.arange(3)) ** 2).sum()

    assert np.abs(jax.grad(loss)(factors.a)).max() > 0
    with pytest.raises(errors.ConfigError, match="factorised: no range is known"):
        static = quantize.Quantize(block=0, activations="static")
        static.expand({**base, QUERY: factors}, {f"{QUERY}/limit": np.float32(1)}, 0)
