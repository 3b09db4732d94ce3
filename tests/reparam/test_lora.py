"""Counts, scalings, the start, dropout, and what a frozen weight must not cost."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import lora, singlora
from tests.reparam import sizes


@pytest.mark.parametrize(("rank", "count"), [(4, 36_864), (8, 73_728), (16, 147_456), (32, 294_912)])
@pytest.mark.parametrize("start", lora.STARTS)
def test_counts_of_the_rank_study(rank, count, start):
    assert sizes.trained(lora.LoRA(rank=rank, start=start), sizes.shapes(sizes.SEQ2SEQ, 128)) == count


def test_other_counts():
    assert sizes.trained(lora.LoRA(rank=8, targets="embed/embedding"), sizes.shapes([], 128)) == 8 * (50048 + 128)
    patterned = lora.LoRA(rank=8, rank_pattern=(("encoder/.*/query/kernel", 4), ("encoder/.*", 2)))
    assert sizes.trained(patterned, sizes.shapes(sizes.SEQ2SEQ, 128)) == 256 * (8 * 24 + 4 * 4 + 2 * 8)


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


def test_a_frozen_a_trains_half(base, moved):
    reparam = lora.LoRA(rank=3, frozen_a=True)
    adapter = reparam.init(jax.random.key(0), base)
    labels = reparam.labels(adapter)
    assert {labels[name] for name in adapter if name.endswith("/a")} == {"constant"}
    assert {labels[name] for name in adapter if name.endswith("/b")} == {"b"}
    distilbert = sizes.shapes([f"layer_{i}/self_attention" for i in range(6)], 768)
    half, whole = (sizes.trained(lora.LoRA(rank=8, frozen_a=frozen), distilbert) for frozen in (True, False))
    assert 2 * half == whole
    with pytest.raises(errors.ConfigError, match="frozen_a: .embed/embedding. is a table"):
        lora.LoRA(rank=2, frozen_a=True, targets="embed/.*").init(jax.random.key(0), base)


def test_factor_dropout_drops_inputs_and_outputs_for_all_tokens():
    name, shape = "l/kernel", (400, 300)
    reparam = lora.LoRA(rank=1, scaling="one", targets=".*", factor_dropout=0.25)
    base, adapter = {name: jnp.zeros(shape)}, {f"{name}/a": jnp.ones((400, 1)), f"{name}/b": jnp.ones((1, 300))}
    dropped, again = (linear.dense(reparam.expand(base, adapter, 0, key=jax.random.key(1))[name]) for _ in range(2))
    rows, columns = (np.array(dropped).any(axis) for axis in (1, 0))
    np.testing.assert_allclose(dropped, np.outer(rows, columns) * (4 / 3) ** 2, rtol=1e-6)
    assert abs(rows.mean() - 0.75) < 0.08 and abs(columns.mean() - 0.75) < 0.08
    np.testing.assert_array_equal(dropped, again)
    np.testing.assert_array_equal(linear.dense(reparam.expand(base, adapter, 0)[name]), 1)
    start = lora.LoRA(rank=2, start="pissa", targets=".*", factor_dropout=0.5)
    base = {name: jax.random.normal(jax.random.key(0), (20, 30))}
    first = start.expand(base, start.init(jax.random.key(0), base), 0, key=jax.random.key(1))
    np.testing.assert_allclose(linear.dense(first[name]), base[name], atol=1e-5)
