"""Every attention in every model, by a line of the config: gradients, padding, and decoding as the whole."""

import functools
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, registry, trees
from lwt.runs import assembly, config_file
from lwt.tasks import decoding
from lwt.training import build

TINY = str(pathlib.Path(__file__).parents[1] / "training" / "tiny.py")
CLASSES = {name: registry.ATTENTIONS.find(name, key="attention") for name in registry.ATTENTIONS.names()}
SETTINGS = {  # such that rows of 10 are long ones; the other variants have their defaults
    "folded": {"places": 2},
    "linformer": {"rank": 3, "max_length": 20},
    "local": {"window": 2},
    "nystrom": {"landmarks": 3, "iterations": 3},
    "softmax": {"block": 4},
    "sparse": {"stride": 3},
}
MODELS = {
    "seq2seq": {"encoder_layers": 1, "decoder_layers": 1, "hidden": 16, "dropout": 0.0},
    "bert": {"layers": 1, "hidden": 16, "dropout": 0.0},
    "embbert": {"layers": 1, "kernel_size": 3},
    "vit": {"layers": 1, "hidden": 16, "image_size": 8, "channels": 1},
}
each_attention = pytest.mark.parametrize("name", CLASSES)


def made(kind, **sections):
    """A tiny model from a config; the attentions by the keys of its section."""
    config = config_file.load(TINY)
    with config.unlocked():
        del config.model
        config.model = {"name": kind, "width": 16, "heads": 2, "attention_dropout": 0.0}
        config.model.update(MODELS[kind] | sections)
        config.data.packed = False
    return assembly.make_model(config, 32)


def attentions(kind, name):
    """The sections that give a variant to a model; where it cannot be, softmax."""
    section = {"name": name, **SETTINGS.get(name, {})}
    if kind != "seq2seq":
        return {"attention": section}
    can = {"decoder_attention": CLASSES[name].has_causal, "cross_attention": CLASSES[name].crosses}
    return {"attention": section, **{key: "softmax" for key, possible in can.items() if not possible}}


def batches(kind):
    """Two batches that differ in the whole first row and in the padding of the second."""
    generators = [np.random.default_rng(seed) for seed in (1, 2)]
    if kind == "vit":
        images = [generator.normal(size=(2, 8, 8, 1)).astype(np.float32) for generator in generators]
        images[1][1] = images[0][1]
        return [{"image": image} for image in images]
    ids = [generator.integers(4, 32, (2, 10), dtype=np.int32) for generator in generators]
    ids[1][1, :7] = ids[0][1, :7]
    segments = np.array([[1] * 10, [1] * 7 + [0] * 3], np.int32)
    if kind != "seq2seq":
        return [{"ids": x, "segments": segments} for x in ids]
    same = {
        f"{side}_{what}": array
        for side in ("source", "target")
        for what, array in (("segments", segments), ("positions", np.tile(np.arange(10, dtype=np.int32), (2, 1))))
    }
    return [{"source": x, "inputs": x, **same} for x in ids]


def read(outputs):
    """What of the outputs is of the second row, and no padding."""
    return outputs[1, :7] if outputs.ndim == 3 else outputs[1]


@functools.cache
def case(kind, name):
    """A model, random weights, and ``(params, batch) -> (gradients, outputs)`` of a loss that reads the second row."""
    model = made(kind, **attentions(kind, name))
    generator = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"]
    params = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(0, 0.4, leaf.shape), leaf.dtype), shapes)

    def loss(params, batch):
        outputs = model.apply({"params": params}, batch)
        return jnp.sin(read(outputs) + jnp.arange(read(outputs).shape[-1])).sum(), outputs

    return model, params, jax.jit(jax.grad(loss, has_aux=True))


@each_attention
@pytest.mark.parametrize("kind", MODELS)
def test_weights_learn_and_neither_padding_nor_other_rows_are_seen(kind, name):
    (_, params, run), (first, second) = case(kind, name), batches(kind)
    gradients, outputs = run(params, first)
    gradients = trees.flatten(gradients)
    assert all(np.isfinite(leaf).all() for leaf in gradients.values())
    kernels = [leaf for weight, leaf in gradients.items() if re.fullmatch(r".*attention/.*kernel", weight)]
    assert len(kernels) >= 2 and all(np.abs(leaf).max() > 1e-6 for leaf in kernels)

    others = run(params, second)[1]
    np.testing.assert_allclose(read(others), read(outputs), atol=2e-5)
    assert np.abs(others[0] - outputs[0]).max() > 0.01


@pytest.mark.parametrize("name", [name for name, cls in CLASSES.items() if cls.has_causal or cls.crosses])
def test_greedy_decoding_gives_the_logits_of_the_whole(name):
    (model, params, run), (batch, _) = case("seq2seq", name), batches("seq2seq")

    @jax.jit
    def decode(params, batch):
        apply = functools.partial(model.apply, {"params": params})
        segments = batch["source_segments"]
        memory = apply(batch["source"], segments, positions=batch["source_positions"], method="encode")
        cache = apply(memory, segments, length=10, method="start")
        step = functools.partial(apply, method="step")
        return decoding.greedy(step, cache, batch=2, length=10, eos=-1, with_scores=True)

    tokens, scores = (np.asarray(x) for x in decode(params, batch))
    inputs = np.concatenate([[[2]] * 2, tokens[:, :-1]], axis=1).astype(np.int32)
    answers = {**batch, "inputs": inputs, "target_segments": np.ones((2, 10), np.int32)}
    logits = np.array(run(params, answers)[1])
    likely = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    np.testing.assert_allclose(scores, np.take_along_axis(likely, tokens[..., None], axis=2).sum((1, 2)), rtol=1e-4)
    likely[..., [0, 2]] = -np.inf  # never chosen
    np.testing.assert_array_equal(likely.argmax(-1), tokens)


def test_a_search_does_not_copy_the_cache_of_keys_and_values():
    model, params, _ = case("seq2seq", "softmax")

    @jax.jit
    def decode(params, memory, segments):
        apply = functools.partial(model.apply, {"params": params})
        cache = apply(memory, segments, length=11, method="start")
        return decoding.greedy(functools.partial(apply, method="step"), cache, batch=3, length=11)[0]

    program = decode.lower(params, jnp.ones((3, 7, 16)), jnp.ones((3, 7), jnp.int32)).compile().as_text()
    body = re.search(r"body=(%[\w.-]+)", program)[1]
    lines = re.search(rf"^{re.escape(body)} .*?^}}", program, re.DOTALL | re.MULTILINE)[0]
    assert "f32[3,2,11,8]" in lines, "the cache is not in this loop"
    assert not re.findall(r"f32\[(?:3,2|6),11,8\]\S* copy\(", lines)


@pytest.mark.parametrize("section", [{"name": "linformer", "rank": 8}, "linformer:rank=8,shared=true"])
def test_a_section_sets_fields(section):
    model = made("seq2seq", attention=section, decoder_attention="softmax")
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])
    rows = {name: leaf.shape for name, leaf in shapes.items() if name.endswith("rows/kernel")}
    sides = "encoder/layer_0/self_attention", "decoder/layer_0/cross_attention"
    assert rows == {f"{side}/rows/kernel": (512, 8) for side in sides}


@each_attention
def test_a_wrong_argument_is_named(name):
    with pytest.raises(errors.ConfigError, match=r"model\.attention\.hedas: Attention has no such argument; "):
        made("bert", attention={"name": name, "hedas": 4})
    with pytest.raises(errors.ConfigError, match=r"model\.attention\.use_bias='no'"):
        made("bert", attention=f"{name}:use_bias=no")
    with pytest.raises(errors.ConfigError, match=r"'use_bias' should be ARGUMENT=VALUE"):
        made("bert", attention=f"{name}:use_bias")


def test_what_the_model_gives_is_not_the_attentions_to_set():
    with pytest.raises(errors.ConfigError, match=r"model\.attention\.use_bias"):
        made("embbert", attention={"name": "softmax", "use_bias": False})


@pytest.mark.parametrize("factor", [0.01, 1])
def test_training_warns_where_the_approximation_does_not_hold(tmp_path, caplog, factor):
    config = config_file.load(TINY)
    with config.unlocked():
        config.model.attention = "approximate"
        config.model.decoder_attention = "softmax"
        config.data.packed = False
    model = assembly.make_model(config, 128)
    weights = assembly.init_weights(model, jax.random.key(0))
    weights = {name: leaf * factor if name.endswith("query/kernel") else leaf for name, leaf in weights.items()}
    run = build.build(config, str(tmp_path), base=weights)
    layers = {"encoder/layer_0/self_attention", "decoder/layer_0/cross_attention"}
    warned = {record.getMessage().partition(":")[0] for record in caplog.records if record.levelname == "WARNING"}
    assert warned & layers == (layers if factor == 1 else set())
    assert run.batches.state()["batch"] == 0
