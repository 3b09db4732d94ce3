"""Vertical LoRA against the formulas of its paper, on the models of lwt, and in whole runs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.models import bert, embbert, seq2seq
from lwt.reparam import compose
from lwt.reparam.compression import vertical
from lwt.runs import assembly, experiment
from lwt.training import train

LAYERS, WIDTH = 6, 8
ATTENTION = {f"attention/{name}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
KERNELS = ATTENTION | {"mlp/fc1": (WIDTH, 12), "mlp/fc2": (12, WIDTH)}
TEXTS = {"ids": jnp.array([[2, 7, 9, 4]]), "segments": jnp.ones((1, 4), jnp.int32)}
PAIRS = {name: jnp.array([[5, 7, 3]]) for name in ("source", "inputs", "targets")}
PAIRS |= {f"{side}_segments": jnp.ones((1, 3), jnp.int32) for side in ("source", "target")}
PAIRS |= {f"{side}_positions": jnp.arange(3)[None] for side in ("source", "target")}
SMALL = dict(vocabulary=32, max_length=8, width=16, dtype="float32")
MODELS = {
    "seq2seq": (seq2seq.Seq2Seq(vocabulary=32, width=16, heads=2, hidden=24), PAIRS),
    "bert": (bert.Bert(layers=2, heads=2, hidden=24, **SMALL), TEXTS),
    "embbert": (embbert.Embbert(layers=4, reduced=4, kernel_size=3, **SMALL), TEXTS),
}


@pytest.fixture
def base():
    """Six layers with the names of a transformer's, random."""
    generator = np.random.default_rng(0)
    shapes = {f"block_{i}/{name}/kernel": shape for i in range(LAYERS) for name, shape in KERNELS.items()}
    shapes |= {f"block_{i}/mlp/fc1/bias": (12,) for i in range(LAYERS)} | {"head/kernel": (WIDTH, 3)}
    return {name: jnp.asarray(generator.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


def expanded(reparam, base, adapter):
    return reparam.expand(reparam.stored(base), adapter, 0)


def increment(adapter, layer, kind):
    """``a @ b`` of one weight, by hand."""
    if kind in ("query", "key", "value"):
        place = ("query", "key", "value").index(kind)
        a, b = (np.asarray(adapter[f"block_{layer}/attention/query_key_value/kernel/{x}"]) for x in "ab")
        return a @ b[:, place * WIDTH : (place + 1) * WIDTH]
    a, b = (np.asarray(adapter[f"block_{layer}/mlp/{kind}/kernel/{x}"]) for x in "ab")
    return a @ b


@pytest.mark.parametrize("mode", vertical.MODES)
def test_weights_are_those_of_the_equations(base, mode):
    reparam = vertical.Vertical(chunks=2, rank=2, mode=mode, scale=0.5)
    adapter = reparam.init(jax.random.key(0), base)
    weights = linear.merge(expanded(reparam, base, adapter))
    assert trees.differences(base, weights) == ""
    for layer in range(LAYERS):
        first = 3 * (layer // 3)
        added = {"recursive": range(first + 1, layer + 1), "base": [layer] if layer > first else [], "lors": [layer]}
        for path in ("attention/key", "mlp/fc2"):
            kind = path.split("/")[1]
            expected = base[f"block_{first}/{path}/kernel"] + 0.5 * sum(
                increment(adapter, i, kind) for i in added[mode]
            )
            np.testing.assert_allclose(weights[f"block_{layer}/{path}/kernel"], expected, atol=1e-5)
    np.testing.assert_array_equal(weights["block_4/mlp/fc1/bias"], base["block_4/mlp/fc1/bias"])


def test_what_is_stored(base):
    stored = vertical.Vertical(chunks=3).stored(base)
    kernels = {name for name in stored if name.startswith("block") and name.endswith("kernel")}
    assert kernels == {f"block_{i}/{name}/kernel" for i in (0, 2, 4) for name in KERNELS}
    assert {name for name in base if not name.endswith("kernel")} | {"head/kernel"} < set(stored)
    own = vertical.Vertical(chunks=3, targets=r".*fc\d/kernel").stored(base)
    assert "block_1/attention/out/kernel" in own and "block_1/mlp/fc1/kernel" not in own


@pytest.mark.parametrize(
    ("mode", "stop", "reached"),
    [
        ("recursive", None, {0, 1, 2}),
        ("recursive", True, {2}),
        ("base", None, {2}),
        ("base", False, {0, 2}),
        ("lors", None, {0, 2}),
        ("lors", True, {2}),
    ],
)
def test_gradients_flow_as_the_mode_says(base, mode, stop, reached):
    """The layers with a leaf that a loss on the weights of layer 2 reaches; 0 to 2 are a chunk."""
    reparam = vertical.Vertical(chunks=2, rank=2, mode=mode, stop_gradient=stop)

    def loss(leaves):
        weights = reparam.expand(*leaves, 0)
        return (linear.linear(jnp.ones((1, WIDTH)), weights["block_2/mlp/fc1/kernel"]) ** 2).sum()

    stored, adapter = jax.grad(loss)((reparam.stored(base), reparam.init(jax.random.key(0), base)))
    assert {int(name[len("block_")]) for name, g in (stored | adapter).items() if np.any(g)} == reached


def test_one_factor_for_query_key_and_value(base):
    fused, own = (vertical.Vertical(rank=2, fused=f) for f in (vertical.Vertical.fused, ""))

    def count(reparam):
        return trees.count(reparam.init(jax.random.key(0), base))

    assert count(own) - count(fused) == (LAYERS - 1) * 2 * 2 * WIDTH
    names = own.init(jax.random.key(0), base)
    assert "block_1/attention/key/kernel/a" in names and "block_0/attention/key/kernel/a" not in names
    crossed = {name.replace("attention", "cross_attention"): w for name, w in base.items()}
    assert count(own) == trees.count(fused.init(jax.random.key(0), crossed)), "they read different inputs"


def misfits(reparam, base, adapter):
    """The relative error (Frobenius) of each weight that an increment forms."""
    made = linear.merge(reparam.expand(reparam.stored(base), adapter, 0))
    norm = np.linalg.norm
    return {n: norm(base[n] - made[n]) / norm(base[n]) for i in reparam.plan(base) for n in i.weights}


def test_svd_is_the_best_fit_of_its_rank(base):
    errors_at = {}
    for rank in (1, 4, WIDTH):
        reparam = vertical.Vertical(rank=rank, mode="base", start="svd", scale=2.0)
        adapter = reparam.init(jax.random.key(0), base)
        errors_at[rank] = misfits(reparam, base, adapter)
        name = "block_3/mlp/fc1/kernel"
        left = np.linalg.svd(np.asarray(base[name] - base["block_0/mlp/fc1/kernel"]), compute_uv=False)[rank:]
        expected = np.linalg.norm(left) / np.linalg.norm(base[name])
        assert errors_at[rank][name] == pytest.approx(expected, abs=1e-5)
    assert max(errors_at[WIDTH].values()) < 1e-5 < min(errors_at[4].values())
    recursive = vertical.Vertical(rank=WIDTH, start="svd")
    assert max(misfits(recursive, base, recursive.init(jax.random.key(0), base)).values()) < 1e-5


def test_an_average_lies_closer_to_all_layers_than_the_first_does(base):
    """The shared weight is the chunk's mean, the increments the best ones for what is left of every layer."""
    made = {}
    for start in ("svd", "average"):
        reparam = vertical.Vertical(chunks=2, rank=2, mode="lors", start=start)
        made[start] = misfits(reparam, base, reparam.init(jax.random.key(0), base))
    assert sum(made["average"].values()) < sum(made["svd"].values())
    name = "block_{}/mlp/fc1/kernel"
    mean = np.mean([base[name.format(i)] for i in range(3, 6)], axis=0)
    np.testing.assert_allclose(reparam.stored(base)[name.format(3)], mean, atol=1e-6)
    left = np.linalg.svd(np.asarray(base[name.format(4)] - mean), compute_uv=False)[2:]
    expected = np.linalg.norm(left) / np.linalg.norm(base[name.format(4)])
    assert made["average"][name.format(4)] == pytest.approx(expected, abs=1e-5)
    exact = vertical.Vertical(chunks=2, rank=WIDTH, mode="lors", start="average")
    assert max(misfits(exact, base, exact.init(jax.random.key(0), base)).values()) < 1e-5


@pytest.mark.parametrize(("start", "chunks"), [("svd", 2), ("average", LAYERS)])
def test_every_fitted_increment_has_a_gradient(base, start, chunks):
    """The first layer of a chunk leaves nothing to fit: one of its factors is random, the other zero."""
    reparam = vertical.Vertical(chunks=chunks, rank=2, mode="lors", start=start)
    adapter = reparam.init(jax.random.key(0), base)

    def total(adapter):
        return sum((w**2).sum() for w in linear.merge(expanded(reparam, base, adapter)).values())

    found = jax.grad(total)(adapter)
    assert all(any(abs(found[f"{i.name}/{x}"]).max() > 0 for x in "ab") for i in reparam.plan(base))


@pytest.mark.parametrize("mode", vertical.MODES)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_computes_and_learns(name, mode):
    model, batch = MODELS[name]
    whole = trees.flatten(model.init(jax.random.key(0), model.example())["params"])
    reparam = vertical.Vertical(chunks=2 if name != "bert" else 1, rank=2, mode=mode)
    stored, adapter = reparam.stored(whole), reparam.init(jax.random.key(1), whole)
    assert trees.count(stored) + trees.count(adapter) < trees.count(whole)

    @functools.partial(jax.jit, static_argnums=2)
    def output(stored, adapter, merged):
        weights = reparam.expand(stored, adapter, 0)
        return model.apply({"params": trees.unflatten(linear.merge(weights) if merged else weights)}, batch)

    np.testing.assert_allclose(output(stored, adapter, False), output(stored, adapter, True), atol=1e-5)
    gradients = jax.grad(lambda s, a: (output(s, a, False) ** 2).sum(), (0, 1))(stored, adapter)
    assert all(np.isfinite(g).all() for tree in gradients for g in tree.values())
    assert all(np.any(g) for g in gradients[1].values())


def test_lora_on_top(base):
    """The paper calls the two orthogonal: an adapter on a stored base of fewer weights."""
    parts = [{"name": "vertical", "chunks": 3}, {"name": "lora", "rank": 2, "targets": r".*attention/query/kernel"}]
    both, alone = compose.build({"name": "compose", "parts": parts}), vertical.Vertical(chunks=3)
    adapter = both.init(jax.random.key(0), base)
    own = trees.subtree(adapter, "0_vertical")
    before = linear.merge(expanded(alone, base, own))
    start = linear.merge(expanded(both, base, adapter))
    for name, w in before.items():
        np.testing.assert_allclose(start[name], w, atol=1e-6)
    adapter["1_lora/block_1/attention/query/kernel/b"] += 1
    moved = linear.merge(expanded(both, base, adapter))
    assert [name for name in base if not np.allclose(moved[name], start[name])] == ["block_1/attention/query/kernel"]
    turned = compose.build({"name": "compose", "parts": parts[::-1]})
    with pytest.raises(errors.ConfigError, match="1_vertical replaces stored weights"):
        turned.stored(base)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 4}, "chunks=4 must divide the 6 layers block_0 to block_5"),
        ({"targets": ".*"}, "head/kernel.* is not in a layer"),
        ({"targets": ".*fc3.*"}, "matches no weight"),
        ({"rank": 9, "start": "svd"}, "start='svd' takes at most 8"),
        ({"start": "average"}, "start='average' needs reparam.mode='lors', not 'recursive'"),
        ({"rank_pattern": ((".*fc7.*", 2),)}, "rank_pattern .*fc7.* matches no weight"),
        ({"targets": r"block_\d/.*"}, r"needs matrices .*block_0/mlp/fc1/bias \(12,\)"),
    ],
)
def test_what_does_not_fit(base, options, message):
    with pytest.raises(errors.ConfigError, match=message):
        vertical.Vertical(**options).init(jax.random.key(0), base)


def test_targets_are_not_widened(base):
    one = vertical.Vertical(rank=2, targets=r".*_\d+/.*/query/kernel")
    adapter = one.init(jax.random.key(0), base)
    assert adapter and all("/query/kernel/" in name for name in adapter)
    assert base.keys() - one.stored(base).keys() == {name.rpartition("/")[0] for name in adapter}


def test_layers_of_other_shapes_are_refused(base):
    base["block_1/mlp/fc1/kernel"] = base["block_1/mlp/fc1/kernel"][:, :5]
    for act in (lambda one: one.init(jax.random.key(0), base), lambda one: one.stored(base)):
        with pytest.raises(
            errors.ConfigError, match=r"block_1/mlp/fc1/kernel .*, 5.* cannot be block_0/mlp/fc1/kernel"
        ):
            act(vertical.Vertical())


def test_a_layer_without_a_counterpart(base):
    del base["block_0/mlp/fc1/kernel"]
    with pytest.raises(errors.ConfigError, match="block_1/mlp/fc1/kernel.* has no counterpart in block_0"):
        vertical.Vertical().init(jax.random.key(0), base)


def test_a_run_from_scratch_and_its_adapter(tmp_path, monkeypatch):
    """Trained, resumed, opened, and adapted by LoRA; parameters that increments replace are nowhere."""
    monkeypatch.syspath_prepend("tests/training")
    import tiny

    def config(**changes):
        found = tiny.get_config()
        with found.unlocked():
            found.update({"steps": 2, "save_every": 1, "eval_every": 2, **changes})
            found.model.encoder_layers = found.model.decoder_layers = 2
            found.reparam = changes.get("reparam", dict(name="vertical", rank=2))
        return found

    train.run(config(steps=1), tmp_path / "run")
    train.run(config(), tmp_path / "run")
    opened = experiment.load(tmp_path / "run")
    model = assembly.make_model(opened.config, opened.tokenizer.vocabulary)
    whole = jax.eval_shape(lambda: assembly.init_weights(model, jax.random.key(0)))
    assert opened.step == 2 and trees.differences(whole, opened.weights) == ""
    assert not (tmp_path / "run" / "adapter").exists(), "increments without their base are no adapter"
    lora = config(reparam=dict(name="lora", rank=2), init_from=str(tmp_path / "run"))
    with lora.unlocked():
        lora.optimizer.trainable = ("adapter/.*",)
    train.run(lora, tmp_path / "lora")
    assert (tmp_path / "lora" / "adapter" / "adapter.json").exists()
