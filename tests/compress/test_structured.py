"""Structured pruning: the smaller model equals the masked one, and is an ordinary run."""

import copy

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import common
from lwt import errors, trees
from lwt.attention import linear
from lwt.compress import gates, structured
from lwt.models import bert, embbert, seq2seq, vit
from lwt.runs import experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")

SMALL = dict(width=16, heads=4, hidden=12)
MODELS = {
    "seq2seq": seq2seq.Seq2Seq(vocabulary=40, encoder_layers=2, decoder_layers=2, **SMALL),
    "pre_norm": seq2seq.Seq2Seq(vocabulary=40, encoder_layers=2, decoder_layers=2, pre_norm=True, **SMALL),
    "bert": bert.Bert(vocabulary=40, layers=2, head="classify", outputs=3, **SMALL),
    "vit": vit.ViT(image_size=4, layers=2, **SMALL),
}
KEEP = {  # heads and units kept per module: some, none, all
    "heads": [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]],
    "units": [[1, 0] * 6, [0] * 12, [1] * 11 + [0], [1] * 12],
}


def batch_of(name):
    key = jax.random.key(0)
    if name == "vit":
        return {"image": jax.random.normal(key, (2, 4, 4, 3))}
    ids, segments = jax.random.randint(key, (2, 5), 3, 40), jnp.array([[1] * 5, [1, 1, 1, 0, 0]])
    if name == "bert":
        return {"ids": ids, "segments": segments}
    positions = jnp.tile(jnp.arange(5), (2, 1))
    sides = {
        f"{side}_{key}": value
        for side in ("source", "target")
        for key, value in (("segments", segments), ("positions", positions))
    }
    return {"source": ids, "inputs": ids[::-1], **sides}


def weights_of(model, seed=0):
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])
    generator = np.random.default_rng(seed)
    return {name: jnp.asarray(generator.normal(0, 0.3, w.shape), jnp.float32) for name, w in shapes.items()}


def cut(model):
    """The masked weights, and the smaller weights with their model."""
    weights = weights_of(model)
    masked, smaller, sizes = weights, weights, {}
    for kind, choices in KEEP.items():
        names = [name for name, part in model.sublayers().items() if part.is_attention == (kind == "heads")]
        keep = {name: np.array(kept, bool) for name, kept in zip(names, choices)}
        masked = gates.masked(masked, keep, kind=kind)
        smaller, left = gates.removed(smaller, keep, kind=kind)
        sizes |= left
    return masked, smaller, model.clone(sizes=flax.core.freeze(sizes))


@pytest.mark.parametrize("name", MODELS)
def test_the_smaller_model_equals_the_masked_one(name):
    model, batch = MODELS[name], batch_of(name)
    masked, smaller, small = cut(model)
    wanted = jax.eval_shape(lambda: small.init(jax.random.key(0), small.example()))["params"]
    assert trees.differences(trees.flatten(wanted), smaller) == ""
    assert trees.count(smaller) < 0.8 * trees.count(masked)
    outputs = [m.apply({"params": trees.unflatten(w)}, batch) for m, w in ((model, masked), (small, smaller))]
    np.testing.assert_allclose(*outputs, atol=1e-5)
    assert np.abs(outputs[0] - model.apply({"params": trees.unflatten(weights_of(model))}, batch)).max() > 0.01


@pytest.mark.parametrize("name", ["seq2seq", "pre_norm"])
def test_a_step_of_decoding_equals_the_masked_one(name):
    batch, logits = batch_of(name), []
    masked, smaller, small = cut(MODELS[name])
    for model, weights in ((MODELS[name], masked), (small, smaller)):
        variables = {"params": trees.unflatten(weights)}
        source, positions = (batch["source"], batch["source_segments"]), batch["source_positions"]
        memory = model.apply(variables, *source, positions=positions, method="encode")
        cache = model.apply(variables, memory, source[1], length=4, method="start")
        for tokens in batch["inputs"].T[:3]:
            found, cache = model.apply(variables, tokens, cache, method="step")
        logits.append(found)
        kept = trees.nbytes([cache["self"], cache["cross"]])
    np.testing.assert_allclose(*logits, atol=1e-5)
    assert kept < trees.nbytes(
        MODELS[name].apply({"params": trees.unflatten(masked)}, memory, source[1], length=4, method="start")
    )


def test_layers_without_effect_can_be_removed():
    model, batch = MODELS["pre_norm"], batch_of("pre_norm")
    weights = weights_of(model)
    idle = {
        n: w * 0 for n, w in weights.items() if n.startswith(("encoder/layer_0", "decoder/layer_0")) and "norm" not in n
    }
    smaller, sizes, counts = structured.without_layers(
        weights,
        ["encoder/layer_0", "decoder/layer_0"],
        sizes={"encoder/layer_1/mlp": 12, "decoder/layer_0/mlp": 3},
    )
    assert sizes == {"encoder/layer_0/mlp": 12} and counts == {"encoder_layers": 1, "decoder_layers": 1}
    small = model.clone(**counts)
    outputs = [m.apply({"params": trees.unflatten(w)}, batch) for m, w in ((model, weights | idle), (small, smaller))]
    np.testing.assert_allclose(*outputs, atol=1e-5)
    with pytest.raises(errors.ConfigError, match="removes every layer of encoder/layer"):
        structured.without_layers(weights, sizes={}, layers=["encoder/layer_0", "encoder/layer_1"])
    with pytest.raises(errors.ConfigError, match="did you mean 'encoder/layer_1'"):
        structured.without_layers(weights, sizes={}, layers=["encoder/layer_7"])


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "run"
    train.run(tiny({"steps": 2, "model.encoder_layers": 2}), workdir)
    return experiment.load(workdir)


def test_a_run_is_pruned_twice_and_trained(run, tmp_path):
    made, done = structured.prune(run, tmp_path / "heads", heads=0.5, units=0.25, examples=4)
    assert done["heads"] == {"left": 4, "before": 8} and done["units"] == {"left": 72, "before": 96}
    assert done["parameters"] == trees.count(made.weights) < done["parameters_before"]
    scores = structured.scores_of(run, "heads", which="gradient", examples=4)
    masked = gates.masked(run.weights, gates.drop_least(scores, 0.5), kind="heads")
    units = structured.scores_of(run, "units", which="gradient", examples=4)
    masked = run.with_weights(
        gates.masked(masked, gates.drop_least(units, 0.25), kind="units"), name="masked", step=run.step
    )
    texts = ["1 + 2", "30 + 4 + 5"]
    assert made.predict(texts) == masked.predict(texts)
    again, done = structured.prune(
        made, tmp_path / "less", heads=1.0, layers=["encoder/layer_0"], modules="decoder/.*", scores="magnitude"
    )
    assert again.config.model.encoder_layers == 1 and "encoder/layer_1/mlp" not in again.config.model.sizes
    assert done["heads"]["left"] == done["sizes"]["decoder/layer_0/cross_attention"] == 0
    config = common.of_run(tmp_path / "less")
    config.steps = 1
    assert train.run(config, tmp_path / "tuned")["loss"] > 0


def test_wrong_settings(run, tmp_path):
    for options, message in (
        ({}, "nothing to remove"),
        ({"heads": 1.5}, "--heads=1.5 must be in"),
        ({"units": float("nan")}, "--units=nan must be in"),
        ({"units": 1.0}, "--units=1 is a share: it would remove 96 of all 96 units"),
        ({"heads": 0.01}, "--heads=0.01 is a share: it would remove 0 of all 8 heads"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            structured.prune(run, tmp_path / "no", scores="magnitude", **options)
    other = copy.copy(run)
    other.model = run.model.clone(attention=linear.Attention)
    with pytest.raises(errors.ConfigError, match="is not softmax attention"):
        gates.prunable(other, "heads")
    other.model = embbert.Embbert(vocabulary=40)
    with pytest.raises(errors.ConfigError, match="cannot remove units of model.name='seq2seq': it has none"):
        gates.prunable(other, "units")
