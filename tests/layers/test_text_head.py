import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import listen, text_head
from lwt.reparam.compression import quantize


class Words(text_head.TextModel):
    """The ids themselves as states of width 1."""

    width: int = 1

    def encode(self, batch, *, train, first=False):
        del train, first
        return batch["ids"][..., None].astype(jnp.float32)


def seen(rate, *, train):
    """What the states of 100 rows `[CLS] 7 7 ... [SEP]` are made of, each as its share of the words."""
    ids = jnp.full((100, 52), 7).at[:, 0].set(2).at[:, -1].set(4)
    batch = {"ids": ids, "segments": jnp.ones_like(ids)}
    model = Words(vocabulary=8, head="classify", pool="rms", word_dropout=rate)
    variables = model.init(jax.random.key(0), batch)
    rngs = {"dropout": jax.random.key(1)}
    with listen.record(lambda name: name == "", lambda _, states: states, method="hidden_states") as calls:
        model.apply(variables, batch, train=train, rngs=rngs)
    ((states,),) = calls.values()
    assert jnp.all(states[:, 0] == 2) and jnp.all(states[:, -1] == 4)
    return {int(value): float((states[:, 1:-1] == value).mean()) for value in jnp.unique(states[:, 1:-1])}


def test_word_dropout_masks_words_in_training_alone():
    found = seen(0.25, train=True)
    assert set(found) == {text_head.MASK, 7}
    np.testing.assert_allclose(found[text_head.MASK], 0.25, atol=0.03)
    assert seen(0.25, train=False) == {7: 1.0}
    assert seen(0.0, train=True) == {7: 1.0}


def test_a_rate_of_one_is_refused():
    with pytest.raises(errors.ConfigError, match="model.word_dropout=1"):
        seen(1.0, train=True)


@pytest.mark.parametrize("key", ["embedding_std", "position_std"])
def test_a_negative_scale_is_refused(key):
    model = Words(vocabulary=8, **{key: -0.02})
    with pytest.raises(errors.ConfigError, match=f"model.{key}=-0.02 must be finite and at least 0"):
        model.init(jax.random.key(0), model.example())


@pytest.mark.parametrize("texts", [([3, 4], [5]), ([3, 4], [])])
def test_a_pair_is_read_as_two_texts_and_what_sets_them_apart(texts):
    a, b = texts
    ids = jnp.array([[*a, *b, 7, 7]])
    batch = {"ids": ids, "segments": jnp.array([[1] * len(a) + [2] * len(b) + [0, 0]])}
    model = Words(vocabulary=8, head="classify", pool="pair", outputs=4)
    kernel = jnp.eye(4)
    found = model.apply({"params": {"head": {"classifier": {"kernel": kernel, "bias": jnp.zeros(4)}}}}, batch)
    u, v = (np.sqrt(np.mean(np.square(text))) if text else 0.0 for text in texts)
    np.testing.assert_allclose(found[0], [u, v, abs(u - v), u * v], atol=1e-5)


def test_gradients_of_a_pair_without_a_second_text_are_finite():
    batch = {"ids": jnp.array([[3, 4, 7]]), "segments": jnp.array([[1, 1, 0]])}
    model = Words(vocabulary=8, head="classify", pool="pair")
    hidden = model.apply({}, batch, method="hidden_states")
    gradient = jax.grad(lambda hidden: model.apply({}, hidden, batch, method="pooled").sum())(hidden)
    assert jnp.all(jnp.isfinite(gradient)) and jnp.all(gradient[0, :2] > 0) and gradient[0, 2] == 0


def features(text, rows):
    """Rows of a text's ids and pairs: FNV-1a with Python's integers."""
    found = []
    for gram in [(a,) for a in text] + [*zip(text, text[1:])]:
        value = 2166136261
        for token in gram:
            value = (value ^ token) * 16777619 % 2**32
        found.append((value ^ value >> 16) % rows)
    return found


@pytest.mark.parametrize("texts", [([2, 7, 5, 4], [6, 6, 4]), ([2, 4], []), ([2, 7, 7, 7, 7, 4], [])])
def test_ngrams_add_the_rows_of_ids_and_pairs(texts):
    a, b = texts
    ids = jnp.array([[*a, *b, 0, 0]])
    batch = {"ids": ids, "segments": jnp.array([[1] * len(a) + [2] * len(b) + [0, 0]])}
    model = Words(vocabulary=8, head="classify", pool="rms", outputs=3, ngram_weights=40)
    params = model.init(jax.random.key(0), batch)["params"]
    table = params["head"]["ngrams"]["embedding"]
    assert table.shape == (13, 3)  # 40 // 3 rows
    plain = model.clone(ngram_weights=0).apply({"params": params}, batch)
    np.testing.assert_array_equal(model.apply({"params": params}, batch), plain)  # they start at 0
    table = np.random.default_rng(0).normal(size=table.shape).astype(np.float32)
    params["head"]["ngrams"]["embedding"] = table
    places = features(a, 13) + features(b, 13)
    wanted = 4 / np.sqrt(len(places)) * table[places].sum(0)
    np.testing.assert_allclose((model.apply({"params": params}, batch) - plain)[0], wanted, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 13, 8192, 1_000_003])
def test_places_are_hashes_of_32_bits_without_a_sign(rows):
    ids = np.random.default_rng(0).integers(0, 50_000, 1000, np.int32)
    found, exist = text_head.places(jnp.array(ids[None]), jnp.ones((1, 1000), jnp.int32), rows=rows)
    wanted = features(ids.tolist(), rows)
    np.testing.assert_array_equal(found[0, :, 0], wanted[:1000])
    np.testing.assert_array_equal(found[0, 1:, 1], wanted[1000:])
    assert not exist[0, 0, 1] and exist.sum() == 1999


def test_the_table_of_ngrams_is_quantized_like_other_tables():
    model = Words(vocabulary=8, head="classify", ngram_weights=40)
    flat = trees.flatten(model.init(jax.random.key(0), model.example())["params"])
    assert trees.count(flat) == 1 * 2 + 2 + 40
    assert "head/ngrams/embedding" in quantize.Quantize().select(flat)


def test_a_table_of_ngrams_without_rows_is_refused():
    model = Words(vocabulary=8, head="classify", outputs=3, ngram_weights=2)
    with pytest.raises(errors.ConfigError, match="model.ngram_weights=2 must be 0, or at least model.outputs=3"):
        model.init(jax.random.key(0), model.example())
