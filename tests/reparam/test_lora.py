"""Counts, scalings, starts, dropout, and what a frozen weight must not cost."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.layers import linear
from lwt.reparam import dora, lora, singlora

SEQ2SEQ = [f"encoder/layer_{i}/self_attention" for i in range(4)]
SEQ2SEQ += [f"decoder/layer_{i}/{kind}_attention" for i in range(4) for kind in ("self", "cross")]
DISTILBERT = [f"layer_{i}/self_attention" for i in range(6)]


def shapes(modules, d):
    float32 = jnp.float32
    base = {"embed/embedding": jax.ShapeDtypeStruct((50048, d), float32)}
    for module in modules:
        for part in ("query", "key", "value", "out"):
            base[f"{module}/{part}/kernel"] = jax.ShapeDtypeStruct((d, d), float32)
            base[f"{module}/{part}/bias"] = jax.ShapeDtypeStruct((d,), float32)
    return base


def trained(reparam, base):
    adapter = jax.eval_shape(reparam.init, jax.random.key(0), base)
    labels = reparam.labels(adapter)
    return trees.count({name: leaf for name, leaf in adapter.items() if labels[name] != "constant"})


@pytest.mark.parametrize(("rank", "count"), [(4, 36_864), (8, 73_728), (16, 147_456), (32, 294_912)])
@pytest.mark.parametrize("start", lora.STARTS)
def test_counts_of_the_rank_study(rank, count, start):
    assert trained(lora.LoRA(rank=rank, start=start), shapes(SEQ2SEQ, 128)) == count


def test_other_counts():
    assert trained(singlora.SingLoRA(rank=8), shapes(DISTILBERT, 768)) == 110_592
    assert trained(dora.DoRA(rank=8), shapes(SEQ2SEQ, 128)) == 73_728 + 36 * 128
    assert trained(lora.LoRA(rank=8, targets="embed/embedding"), shapes([], 128)) == 8 * (50048 + 128)
    patterned = lora.LoRA(rank=8, rank_pattern=(("encoder/.*/query/kernel", 4), ("encoder/.*", 2)))
    assert trained(patterned, shapes(SEQ2SEQ, 128)) == 256 * (8 * 24 + 4 * 4 + 2 * 8)


def test_scalings():
    name, rules = "x/kernel", {"rank_pattern": (("x/.*", 4),), "alpha_pattern": (("x/.*", 2.0), ("x/kernel", 9.0))}
    assert lora.LoRA(rank=16, alpha=8).scale(name) == 0.5
    assert lora.LoRA(rank=16, alpha=8, scaling="rslora").scale(name) == 2.0
    assert lora.LoRA(rank=16, alpha=8, scaling="one").scale(name) == 1.0
    assert lora.LoRA(**rules).scale(name) == 0.5
    assert lora.LoRA(**rules, scaling="rslora").scale(name) == 1.0
    assert lora.LoRA(**rules).scale("y/kernel") == 1.0


def test_the_order_of_the_base_does_not_matter(base):
    reparam, key = lora.LoRA(rank=2, dropout=0.5), jax.random.key(0)
    turned = dict(reversed(base.items()))
    one, other = reparam.init(key, base), reparam.init(key, turned)
    jax.tree.map(np.testing.assert_array_equal, one, other)
    one, other = (
        reparam.expand(w, one, 0, key=key)["encoder/layer_0/cross_attention/key/kernel"] for w in (base, turned)
    )
    assert (jax.random.key_data(one.key) == jax.random.key_data(other.key)).all()


def test_kaiming_start():
    name = "encoder/layer_0/cross_attention/value/kernel"
    wide = {name: jnp.zeros((400, 300))}
    a = lora.LoRA(rank=50).init(jax.random.key(0), wide)[f"{name}/a"]
    assert 0.995 / 20 < np.abs(a).max() <= 1 / 20
    np.testing.assert_allclose(a.std(), 1 / 20 / np.sqrt(3), rtol=0.02)


def test_singlora_formula_ramp_and_symmetry(base):
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


def test_dropout_acts_on_the_input_of_a_only_in_training():
    name, x = "l/kernel", jnp.ones((4000, 16))
    base = {name: jax.random.normal(jax.random.key(0), (16, 5))}
    reparam = lora.LoRA(rank=16, scaling="one", targets=".*", dropout=0.25)
    adapter = {f"{name}/a": jnp.eye(16), f"{name}/b": jnp.eye(16)[:, :5]}

    def low(key):
        return linear.linear(x, reparam.expand(base, adapter, 0, key=key)[name]) - x @ base[name]

    np.testing.assert_allclose(low(None), 1.0, atol=1e-5)
    dropped = np.array(low(jax.random.key(1)))
    zero = np.abs(dropped) < 1e-5
    assert abs(zero.mean() - 0.25) < 0.01
    np.testing.assert_allclose(dropped[~zero], 4 / 3, atol=1e-5)
    assert (dropped != np.array(low(jax.random.key(2)))).any()


@pytest.mark.parametrize("reparam", [lora.LoRA(rank=4), lora.LoRA(rank=4, start="pissa"), singlora.SingLoRA(rank=4)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_frozen_weight_gets_no_gradient_product(reparam, dtype):
    """The program of the gradient with respect to the adapter, before any optimization, has no product `[in out]`."""
    names = ["x_attention/query/kernel", "y_attention/query/kernel"]
    base = {names[0]: jnp.ones((40, 48)), names[1]: jnp.ones((48, 40))}
    adapter = reparam.init(jax.random.key(0), base)

    def loss(adapter, base, x):
        weights = reparam.expand(base, adapter, 50)
        for name in names:
            x = jnp.tanh(linear.linear(x, weights[name], dtype=dtype))
        return x.sum()

    def products(argument):
        program = jax.jit(jax.grad(loss, argnums=argument)).lower(adapter, base, jnp.ones((64, 40))).as_text()
        return set(re.findall(r"dot_general.*-> tensor<(\w+)xf32>", program))

    assert products(1) & {"40x48", "48x40"} == {"40x48", "48x40"}
    assert products(0) and not products(0) & {"40x48", "48x40"}
