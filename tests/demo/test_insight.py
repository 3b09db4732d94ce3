"""Insights equal what the model's own code mixes and multiplies."""

import functools
import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import PIL.Image
import pytest
from scipy import special

from lwt import registry, trees
from lwt.attention.parts import masks
from lwt.demo import insight, pictures, session
from lwt.inspect import ffn_memories, memory_triggers
from lwt.layers import listen
from lwt.models import embedder, vit
from lwt.runs import assembly
from lwt.tasks import classify_images

CLASSES = {name: registry.ATTENTIONS.find(name, key="attention") for name in registry.ATTENTIONS.names()}
ATTENTIONS = [(name, {}) for name in CLASSES] + [
    ("softmax", {"kv_heads": 2}),
    ("softmax", {"block": 2}),
    ("local", {"window": 3}),
    ("sparse", {"stride": 2}),
    ("linear", {"features": "random", "count": 6}),
    ("nystrom", {"landmarks": 2, "kernel_size": 3}),
]


def weights_of(model):
    return jax.jit(functools.partial(assembly.init_weights, model))(jax.random.key(0))


@pytest.mark.parametrize(("name", "settings"), ATTENTIONS)
def test_weights_equal_what_an_attention_mixes_with(name, settings):
    attention = CLASSES[name](width=16, heads=4, **settings)
    x, mask = jax.random.normal(jax.random.key(0), (1, 7, 16)), masks.Mask(jnp.array([[1] * 5 + [0] * 2]))

    @jax.jit
    def seen(x):
        weights = {}

        def mixed(args, result):
            return args[1].get("value", args[1]["key"]), result

        variables = attention.init(jax.random.key(1), x)
        with listen.record(lambda name: True, mixed, method="mix") as calls, insight.attention_weights(weights):
            attention.apply(variables, x, None, mask)
        (calls,) = calls.values()
        return *weights.values(), *calls[-1]  # the outermost call ends last

    weights, values, result = map(np.asarray, seen(x))
    values = np.repeat(values, result.shape[1] // values.shape[1], axis=1)
    np.testing.assert_allclose((weights @ values)[:, :, :5], result[:, :, :5], atol=1e-5)
    np.testing.assert_allclose(weights[:, :, :5, 5:], 0, atol=1e-6)


def test_attentions_of_a_translation(translator):
    served = session.Session(translator.workdir)
    source, target = "sort ascending: 8 13 2 5", "2 5 8 13"
    found = served.look((source,), answer=target)
    side, seen = "encoder/layer_0/self_attention", "decoder/layer_0/cross_attention"
    own = "decoder/layer_0/self_attention"
    assert list(found.attentions) == [side, seen, own] and served.heads[side] == 2
    sizes = {name: a.weights.shape[1:] for name, a in found.attentions.items()}
    m, n = (len(ids) + 1 for ids in translator.tokenizer.encode([source, target]))
    assert sizes == {side: (m, m), seen: (n, m), own: (n, n)}
    for attention in found.attentions.values():
        assert (len(attention.queries), len(attention.keys)) == attention.weights.shape[1:]
        np.testing.assert_allclose(attention.weights.sum(-1), 1, atol=1e-5)
    looks = found.attentions[own]
    assert looks.keys[0] == "<s>" and looks.queries[-1] == "</s>" and looks.keys[1:] == looks.queries[:-1]
    np.testing.assert_allclose(np.triu(looks.weights, 1), 0, atol=1e-6)


def test_memories_are_the_strongest_triggers(translator):
    served = session.Session(translator.workdir)
    given = ("sort ascending: 8 13 2 5",)
    found = served.look(given, answer="2 5 8")
    (batch,) = served.inputs.batches(given, "2 5 8")
    names = ffn_memories.layers(translator.weights)
    triggers = memory_triggers.strongest(translator.model, translator.weights, batches=[batch], names=names, top=1)
    table = np.asarray(translator.weights["embed/embedding"])[: translator.tokenizer.pieces]
    assert [f"{layer}/kernel" for layer in found.memories] == names and found.through == "output embedding"
    for name in names:
        own = {what: values[:, 0] for what, values in triggers[name].items()}
        memories = found.memories[name.removesuffix("/kernel")]
        assert [m.key for m in memories] == np.argsort(-own["coefficient"], kind="stable")[: insight.KEYS].tolist()
        for memory in memories:
            assert memory.coefficient == pytest.approx(own["coefficient"][memory.key], rel=1e-5)
            assert memory.context[1] == translator.tokenizer.piece(own["last"][memory.key])
            logits = table @ np.asarray(translator.weights[name])[memory.key]
            wanted = len(table) * np.sort(special.softmax(logits))[::-1][: insight.WORDS]
            np.testing.assert_allclose([times for _, times in memory.value], wanted, rtol=1e-4)


def test_a_model_without_heads_or_memories_has_none():
    model = embedder.Embedder(vocabulary=32, width=8, reduced=4)
    experiment = types.SimpleNamespace(model=model, weights=weights_of(model), task=None)
    experiment.tokenizer = types.SimpleNamespace(pieces=32, first=5)
    reader = insight.Reader(experiment)
    assert (reader.heads, reader.layers) == ({}, ())


@pytest.mark.parametrize("pool", ["token", "mean"])
def test_an_image(pool, tmp_path):
    model = vit.ViT(image_size=8, patch=2, width=16, heads=2, hidden=8, layers=1, pool=pool, outputs=3)
    weights, task = weights_of(model), classify_images.ClassifyImages(mean=(0.5,), std=(0.5,))
    experiment = types.SimpleNamespace(model=model, weights=weights, task=task, tokenizer=None)
    reader = insight.Reader(experiment)
    image = np.random.default_rng(0).integers(0, 256, (1, 8, 8, 3), dtype=np.uint8)
    found = reader(experiment, {"image": image, "weight": np.ones(1), "example": np.zeros(1, int)})
    (attention,) = found.attentions.values()
    queries, keys = (1, 17) if pool == "token" else (16, 16)  # the last block computes the class token alone
    assert reader.heads == {"block_0/attention": 2} and attention.weights.shape == (2, queries, keys)
    x = model.bind({"params": trees.unflatten(weights)}).embed(jnp.asarray(image / 127.5 - 1, jnp.float32))
    block = {name: np.asarray(w) for name, w in trees.subtree(weights, "block_0").items()}
    x = np.asarray(nn.LayerNorm(epsilon=1e-6).apply({"params": trees.subtree(weights, "block_0/attention_norm")}, x))[0]
    q, k = (x @ block[f"attention/{n}/kernel"] + block[f"attention/{n}/bias"] for n in ("query", "key"))
    scores = np.einsum("thk,shk->hts", q.reshape(-1, 2, 8), k.reshape(-1, 2, 8)) / 8**0.5
    np.testing.assert_allclose(attention.weights, np.asarray(jax.nn.softmax(scores))[:, :queries], atol=1e-5)
    path = tmp_path / "image.png"
    PIL.Image.fromarray(image[0]).save(path)
    drawn = pictures.attention_to_image(attention, path)
    shown = attention.weights[1, 0, 1:] if pool == "token" else attention.weights[1].mean(0)
    np.testing.assert_allclose(drawn.axes[1].images[1].get_array(), shown.reshape(4, 4))
