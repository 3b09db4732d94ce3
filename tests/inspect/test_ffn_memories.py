"""Memories of models whose triggers and values are known, and of a translation model."""

import pathlib
import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.inspect import ffn_memories, memory_triggers
from lwt.layers import listen, mlp
from lwt.models import bert, embbert
from lwt.runs import assembly, config_file

ROOT = pathlib.Path(__file__).parents[2]
FC2 = "block_0/mlp/fc2/kernel"


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        return mlp.MLP(3, name="mlp")(x)


class Toy(nn.Module):
    """A state is its token plus half of the one before it."""

    @nn.compact
    def __call__(self, batch, *, train=False):
        x = jax.nn.one_hot(batch["ids"], 8)
        return Block(name="block_0")(x + 0.5 * jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1])


def keys(*columns):
    """Keys `[8 f]` from ``{token: weight}``."""
    kernel = np.zeros((8, len(columns)), np.float32)
    for i, column in enumerate(columns):
        kernel[list(column), i] = list(column.values())
    return kernel


def batch_of(*rows):
    ids = np.array([row + [0] * (5 - len(row)) for row in rows], np.int32)
    return {"ids": ids, "segments": (ids > 0).astype(np.int32), "example": np.arange(len(rows), dtype=np.int32)}


# key 0: the bigram 3 4; key 1: the token 5, and 6 a little; key 2: nothing at all
WEIGHTS = {"block_0/mlp/fc1/kernel": keys({3: 2, 4: 4}, {5: 1, 6: 0.25}, {2: -1}), "block_0/mlp/fc1/bias": np.zeros(3)}
WEIGHTS |= {FC2: np.diag([9.0, 9.0, 9.0]) @ np.eye(3, 8, k=4), "block_0/mlp/fc2/bias": np.zeros(8)}
BATCHES = [batch_of([2, 7, 3, 4, 6], [2, 5, 7]), batch_of([2, 3, 4], [2, 6, 5, 5])]


@pytest.fixture(scope="module")
def triggers():
    return memory_triggers.strongest(Toy(), WEIGHTS, batches=BATCHES, names=[FC2], top=4)


def test_triggers_are_the_largest_coefficients_of_all_batches(triggers):
    own = triggers[FC2]
    np.testing.assert_allclose(own["coefficient"][:2], [[5, 5, 2, 2], [1.5, 1.125, 1, 0.5]])  # 4·1 + 2·½; 5 5; 6 5; 5
    places = np.stack([own[key] for key in ("batch", "row", "position")], axis=-1)
    assert places[0, :2].tolist() == [[0, 0, 3], [1, 0, 2]] and places[1, :3].tolist() == [
        [1, 1, 3],
        [1, 1, 2],
        [0, 1, 1],
    ]
    assert own["last"][0, :2].tolist() == [4, 4] and own["before"][1].tolist()[:3] == [5, 6, 2]
    np.testing.assert_array_equal(own["answer"], own["last"])
    assert own["coefficient"][2].max() == 0
    many = memory_triggers.strongest(Toy(), WEIGHTS, batches=BATCHES, names=[FC2], top=50)[FC2]["coefficient"]
    assert np.isfinite(many).sum(axis=1).tolist() == [15] * 3, "padding is no trigger"


def test_the_last_layer_of_a_classifier_that_reads_the_first_position():
    model = bert.Bert(16, width=8, heads=2, hidden=6, layers=1, max_length=8, head="classify")
    weights = assembly.init_weights(model, jax.random.key(0))
    found = memory_triggers.strongest(model, weights, batches=BATCHES, names=[FC2], top=3)[FC2]
    whole = [
        np.asarray(listen.inputs(model, weights, batch=batch, names=[FC2], method="hidden_states")[FC2])
        for batch in (jax.tree.map(jnp.asarray, batch) for batch in BATCHES)
    ]
    assert (found["position"] > 0).any()
    for key in range(6):
        places = zip(found["batch"][key], found["row"][key], found["position"][key], strict=True)
        values = [whole[number][row, position, key] for number, row, position in places]
        np.testing.assert_allclose(values, found["coefficient"][key], rtol=1e-5)
    removed = memory_triggers.removals(model, weights, batches=BATCHES, found={FC2: found}, keys=6, top=3)
    assert np.isfinite([x for x in removed[FC2].values() if x is not None]).all()


def test_texts_of_triggers(triggers):
    texts = memory_triggers.contexts(triggers, BATCHES, wanted={FC2: (np.array([0]), 2)})
    assert texts == {(FC2, 0, 0): ([2, 7, 3], 4, [6]), (FC2, 0, 1): ([2, 3], 4, [])}


def test_removed_tokens(triggers):
    """Of 5: without the first token of [2 7 3 4 6] it stays, of [2 3 4] it falls to 4; without 4, 3 is left: 2."""
    bigram = {FC2: {what: values[:1, :2] for what, values in triggers[FC2].items()}}
    found = memory_triggers.removals(Toy(), WEIGHTS, batches=BATCHES, found=bigram)[FC2]
    np.testing.assert_allclose([found["first"], found["last"]], [(0 - 1 / 5) / 2, -3 / 5], atol=1e-6)
    nothing = {FC2: {what: values[2:] for what, values in triggers[FC2].items()}}
    assert memory_triggers.removals(Toy(), WEIGHTS, batches=BATCHES, found=nothing)[FC2] == {
        "first": None,
        "last": None,
    }


def test_values_are_distributions_over_tokens(triggers):
    tokens, shares, rank = ffn_memories.value_tokens(
        ffn_memories.value_rows(WEIGHTS, FC2), jnp.eye(8), answers=triggers[FC2]["answer"][:, 0], count=3
    )
    assert tokens[:, 0].tolist() == [4, 5, 6] and rank[:2].tolist() == [0, 0]
    np.testing.assert_allclose(shares[:, 0], np.exp(9) / (np.exp(9) + 7), rtol=1e-5)


def test_answers_are_under_the_mask():
    batch = batch_of([2, 3, 7, 7]) | {"masked_positions": np.array([[2, 0]]), "masked_targets": np.array([[6, 0]])}
    batch |= {"masked_weights": np.array([[1.0, 0.0]])}
    assert memory_triggers.answers(FC2, batch).tolist() == [[2, 3, 6, 7, 0]]
    pair = {name: np.array([[i]]) for i, name in enumerate(("source", "source_segments", "targets", "inputs"))}
    assert memory_triggers.answers("encoder/layer_0/mlp/fc2/kernel", pair) == 0
    assert memory_triggers.answers("decoder/layer_0/mlp/fc2/kernel", pair) == 2


@pytest.mark.parametrize("collapsed", [False, True])
def test_coefficients_times_values_are_what_the_convolution_of_embbert_adds(collapsed):
    model = embbert.Embbert(vocabulary=16, max_length=8, width=8, reduced=4, layers=1, kernel_size=3)
    weights = assembly.init_weights(model, jax.random.key(0))
    if collapsed:
        model = model.clone(collapsed=True)
        weights = trees.flatten(embbert.collapse(trees.unflatten(weights)))
    name = "block_0/contract/kernel"
    weights["block_0/contract/bias"] = jnp.zeros(8)
    batch = {key: jnp.asarray(value) for key, value in batch_of([2, 7, 3, 4, 6]).items()}

    def hidden(w):
        return model.apply({"params": trees.unflatten(w)}, batch, method="hidden_states")

    added = hidden(weights) - hidden(weights | {name: jnp.zeros((8, 8))})
    coefficients = listen.inputs(model, weights, batch=batch, names=[name])[name]
    np.testing.assert_allclose(coefficients @ ffn_memories.value_rows(weights, name), added, atol=1e-4)


def test_layers_and_tables():
    names = [f"{side}/layer_{i}/mlp/fc2/kernel" for side in ("encoder", "decoder") for i in (2, 10)]
    assert ffn_memories.layers([*reversed(names), "embed/embedding"]) == names
    with pytest.raises(errors.ConfigError, match="neither mlp/fc2 nor contract"):
        ffn_memories.layers(["embed/embedding"])
    model = bert.Bert(vocabulary=16, max_length=8, width=8, heads=2, embedding="nano", reduced=4, head="pretrain")
    weights = assembly.init_weights(model, jax.random.key(0))
    opened = types.SimpleNamespace(model=model, weights=weights)
    table, through = ffn_memories.output_table(opened)
    np.testing.assert_array_equal(table, weights["head/masked_lm/kernel"].T)
    opened.model = model.clone(head="classify")
    table, through = ffn_memories.output_table(opened)
    expected = weights["embed/token"] @ weights["embed/token_expander/kernel"]
    np.testing.assert_allclose(table, expected, atol=1e-6)
    assert table.shape == (16, 8) and "input" in through
    opened.model = bert.Bert(vocabulary=16, max_length=8, width=8, heads=2, embedding_width=4, head="classify")
    opened.weights = assembly.init_weights(opened.model, jax.random.key(0))
    assert ffn_memories.output_table(opened)[0].shape == (16, 8)  # as ELECTRA's and ALBERT's narrow tables


def test_a_translation_model(tmp_path):
    config = config_file.load(f"{ROOT}/tests/training/tiny.py")
    data = assembly.make_data(config, tmp_path)
    model = assembly.make_model(config, data.vocabulary)
    weights = assembly.init_weights(model, jax.random.key(0))
    opened = types.SimpleNamespace(
        config=config, workdir=str(tmp_path), model=model, weights=weights, tokenizer=data.tokenizer
    )
    layers, texts, facts = ffn_memories.study(opened, shown=5, top=6)
    assert [layer.name.split("/")[0] for layer in layers] == ["encoder", "decoder"] and facts["records"] == 8
    assert [layer.predicts for layer in layers] == ["the token", "the next token"]
    (batch,) = data.batches(data.evaluation(config.data.validation))
    for layer in layers:
        own = {name: values[3, 0] for name, values in layer.triggers.items()}
        ids, answer = ("source", "source") if layer.predicts == "the token" else ("inputs", "targets")
        assert own["last"] == batch[ids][own["row"], own["position"]]
        assert own["answer"] == batch[answer][own["row"], own["position"]]
