"""A look at the first batches: what a weight meets, and runs whose adapters start from it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import compose
from lwt.runs import experiment
from lwt.training import build, methods, train


def loss(weights, batch):
    """A loss of two layers, for the rows that a mask keeps."""
    hidden = jnp.tanh(linear.linear(batch["x"], weights["one/kernel"]))
    y = linear.linear(hidden, weights["two/kernel"])
    return (batch["mask"][..., None] * y**2).sum()


@pytest.fixture
def given():
    draw = np.random.default_rng(0)
    weights = {"one/kernel": jnp.asarray(draw.normal(size=(4, 5))), "two/kernel": jnp.asarray(draw.normal(size=(5, 3)))}
    mask = np.array([[1.0, 1, 0], [1, 0, 0]])
    return weights, [{"x": jnp.asarray(draw.normal(size=(2, 3, 4))), "mask": mask} for _ in range(3)]


def test_inputs_of_padding_do_not_count(given):
    weights, batches = given
    watched = {("inputs", "one/kernel"): 3, ("inputs", "two/kernel"): 3}
    seen = methods.observe(loss, weights, watched=watched, batches=batches)
    x = np.concatenate([np.asarray(batch["x"])[batch["mask"] > 0] for batch in batches])
    for name, rows in (("one/kernel", x), ("two/kernel", np.tanh(x @ np.asarray(weights["one/kernel"])))):
        rows = np.concatenate([rows, np.ones((9, 1))], axis=1)
        np.testing.assert_allclose(seen["inputs", name], rows.T @ rows, rtol=1e-5, atol=1e-5)


def test_gradients_are_those_of_the_weight_and_nothing_is_an_error(given):
    weights, batches = given
    seen = methods.observe(loss, weights, watched={("gradients", "one/kernel"): 3}, batches=batches)
    expected = sum(jax.grad(loss)(weights, batch)["one/kernel"] for batch in batches)
    np.testing.assert_allclose(seen["gradients", "one/kernel"], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(errors.ConfigError, match="no finite inputs other than 0 at 'one/kernel'"):
        empty = [{**batches[0], "mask": np.zeros((2, 3))}]
        methods.observe(loss, weights, watched={("inputs", "one/kernel"): 1}, batches=empty)


@pytest.mark.parametrize("start", ["eva", "corda", "lora_ga"])
def test_a_run_starts_from_its_first_batches(start, tiny, untrained, tmp_path):
    base = untrained(tiny(), tmp_path / "base")
    lora = {"name": "lora", "rank": 4, "start": start, "batches": 2}
    section = (
        {"name": "compose", "parts": [{"name": "quantize", "format": "int8"}, lora]} if start == "lora_ga" else lora
    )
    config = tiny({"reparam": section, "optimizer.trainable": ("adapter/.*",), "init_from": base.workdir})
    run = build.build(config, str(tmp_path / "run"), base=base.weights)
    reparam, prefix = compose.build(section), "1_lora/" if start == "lora_ga" else ""
    found = trees.subtree(run.init().trainable, "adapter")
    initial = reparam.init(jax.random.key(0), base.weights)
    for name, leaf in found.items():
        kind = name.rpartition("/")[2]
        assert np.any(leaf) == (start != "eva" or kind != "b") and np.any(leaf != initial[name]) == np.any(leaf)
    assert {name.rpartition("/")[2] for name in found} == ({"a", "b"} if start == "eva" else {"a", "b", "a0", "b0"})
    name = f"{prefix}encoder/layer_0/self_attention/query/kernel"
    if start != "corda":
        product = np.asarray(found[f"{name}/a"]).T @ np.asarray(found[f"{name}/a"])
        np.testing.assert_allclose(product, np.eye(4) * product[0, 0], atol=1e-6)
    before, after = (reparam.expand(base.weights, leaves, 0) for leaves in (initial, found))
    for weight in base.weights:
        np.testing.assert_allclose(linear.dense(after[weight]), linear.dense(before[weight]), atol=1e-6)
    assert run.batches.state() == build.build(config, str(tmp_path / "run"), base=base.weights).batches.state()


def test_what_a_run_subtracts_is_in_its_adapter(tiny, tmp_path):
    train.run(tiny({"steps": 1}), tmp_path / "base")
    section = {"name": "lora", "rank": 2, "start": "lora_ga", "batches": 1, "frozen_a": True}
    changes = {"reparam": section, "optimizer.trainable": ("adapter/.*",), "init_from": f"{tmp_path}/base", "steps": 2}
    train.run(tiny(changes), tmp_path / "run")
    run = experiment.load(tmp_path / "run")
    adapter = experiment.load(tmp_path / "run/adapter", base=tmp_path / "base")
    for name, w in run.weights.items():
        np.testing.assert_array_equal(adapter.weights[name], w)
    leaves = run.stored()[0]
    for name in (name for name in leaves if name.endswith("0")):
        assert np.array_equal(leaves[name], leaves[name[:-1]]) == name.endswith("a0")  # b alone is trained


def test_leaves_from_data_have_to_be_trained(tiny, untrained, tmp_path):
    base = untrained(tiny(), tmp_path / "base")
    changes = {"reparam": {"name": "lora", "rank": 4, "start": "eva", "batches": 1}, "init_from": base.workdir}
    with pytest.raises(errors.ConfigError, match="leaves out 'adapter/.*/a', which starts from data"):
        train.run(tiny({**changes, "optimizer.trainable": ("adapter/.*/b",)}), str(tmp_path / "run"))
