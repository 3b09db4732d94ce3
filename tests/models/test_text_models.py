"""What every text encoder keeps: exact counts, the heads, padding that influences nothing, bfloat16."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import efficient
from lwt.models import bert, embbert, embedder, mamba

EA = dict(attention=efficient.Attention, heads=1, activation="silu", norm="rms", norm_place="inline", dropout=0.0)
TINY_BERT = dict(width=128, hidden=512, activation="gelu", segments=2, max_length=512, embedding_norm=True, pooler=True)
PAPER = {
    "embbert": (embbert.Embbert(8192), 357_248),
    "embbert, 2453 tokens": (embbert.Embbert(2453), 357_248 - (8192 - 2453) * 16),
    "bert_2mb": (bert.Bert(2048), 288_720),
    "mamba_2mb": (mamba.Mamba(2048), 219_968),
    "embedder": (embedder.Embedder(8192), 292_736),
    "embedder_conv": (embedder.Embedder(8192, kernel_size=16), 298_176),
    "embedder, published": (embedder.Embedder(8192, use_bias=False, norm="none"), 290_816 + 3 * 320),
    "bert_ne": (bert.Bert(8192, width=90, hidden=180, embedding="nano"), 269_898),
    "bert_ea": (bert.Bert(2048, width=84, hidden=168, layers=3, **EA), 322_560),
    "bert_ne_ea": (bert.Bert(8192, width=128, hidden=89, layers=4, embedding="nano", **EA), 364_772),
    "bert_tiny": (bert.Bert(30_522, **TINY_BERT), 4_385_920),
}
SMALL = dict(vocabulary=24, max_length=12, width=8)
MODELS = {
    "embbert": embbert.Embbert(**SMALL, reduced=4, layers=2, kernel_size=3, expansion=2),
    "bert": bert.Bert(**SMALL, hidden=10),
    "bert_ne_ea": bert.Bert(**SMALL, hidden=10, embedding="nano", reduced=4, **EA),
    "bert_tiny": bert.Bert(**SMALL, hidden=10, embedding_norm=True, pooler=True, activation="gelu", segments=2),
    "mamba": mamba.Mamba(**SMALL, layers=2),
    "embedder": embedder.Embedder(**SMALL, reduced=4),
    "embedder_conv": embedder.Embedder(**SMALL, reduced=4, kernel_size=3),
}
TEXTS = [([2, 5, 6, 4], [7, 8, 9, 4]), ([2, 10, 4], []), ([], [])]  # two texts; one; a filler row


def make_batch(length, *, padding=0):
    ids, segments = np.full((3, length), padding, np.int32), np.zeros((3, length), np.int32)
    for row, (first, second) in enumerate(TEXTS):
        ids[row, : len(first + second)] = first + second
        segments[row, : len(first + second)] = [1] * len(first) + [2] * len(second)
    return {"ids": jnp.asarray(ids), "segments": jnp.asarray(segments)}


@pytest.fixture(params=MODELS)
def small(request, weights_of):
    model = MODELS[request.param].clone(head="classify", outputs=3)
    return model, weights_of(model)


def shapes(model):
    return trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])


@pytest.mark.parametrize("name", MODELS)
def test_the_scales_of_the_initial_tables(name):
    model = MODELS[name].clone(vocabulary=500, max_length=400, embedding_std=0.02, position_std=0.05)
    tables = trees.flatten(model.init(jax.random.key(0), model.example())["params"])
    stds = {table: float(tables[f"embed/{table}"].std()) for table in ("token", "position")}
    assert stds == {"token": pytest.approx(0.02, rel=0.1), "position": pytest.approx(0.05, rel=0.1)}
    assert abs(tables["embed/segment"]).max() < 0.25


@pytest.mark.parametrize("name", PAPER)
def test_counts_of_the_paper(name):
    model, count = PAPER[name]
    assert trees.count(shapes(model)) == count


def test_counts_with_heads():
    seven = embbert.Embbert(8192, head="classify", outputs=7)
    two = embbert.Embbert(2453, head="classify", outputs=2)
    assert [trees.count(shapes(model)) for model in (seven, two)] == [358_151, 265_682]
    tree = shapes(embbert.Embbert(8192, head="pretrain"))
    head, body = trees.split(tree, lambda name: name.startswith("head/"))
    assert {name: leaf.shape for name, leaf in head.items()} == {
        "head/masked_lm/kernel": (128, 8192),
        "head/masked_lm/bias": (8192,),
        "head/next_sentence/kernel": (128, 2),
        "head/next_sentence/bias": (2,),
    }
    assert trees.count(head) - (2 * 128 + 2) == 1_056_768 and trees.count(body) == 357_248


@pytest.mark.parametrize("name", MODELS)
def test_bodies_are_the_same_under_every_head(name):
    bodies = [shapes(MODELS[name].clone(head=head)) for head in ("none", "pretrain", "classify")]
    body = {name: leaf.shape for name, leaf in bodies[0].items()}
    for tree in bodies[1:]:
        assert {name: leaf.shape for name, leaf in tree.items() if not name.startswith("head/")} == body
        assert len(tree) > len(body)


def test_padding_influences_no_real_output(small, run):
    model, variables = small
    tight, loose = make_batch(8), make_batch(12, padding=13)
    real = np.array(tight["segments"]) > 0
    hidden = [run(model, variables, batch, method="hidden_states") for batch in (tight, loose)]
    np.testing.assert_allclose(hidden[1][:, :8][real], hidden[0][real], atol=1e-5)
    logits = [run(model, variables, batch) for batch in (tight, loose)]
    np.testing.assert_allclose(logits[1][:2], logits[0][:2], atol=1e-5)
    assert np.isfinite(logits[1]).all() and np.isfinite(hidden[1]).all()


def test_every_token_of_a_text_reaches_the_logits(small):
    """By gradient, and finite: also through the filler row."""
    model, variables = small
    batch = make_batch(8)
    gradient = jax.jit(jax.grad(lambda params: jnp.square(model.apply({"params": params}, batch)).sum()))(
        variables["params"]
    )
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    touched = np.abs(gradient["embed"]["token"]).sum(-1) > 0
    assert {5, 6, 7, 8, 9, 10, 4, 2} <= set(np.flatnonzero(touched).tolist())
    assert not touched[11:].any()


def test_bfloat16_is_near_float32(small, run):
    model, variables = small
    batch = make_batch(8)
    logits = run(model, variables, batch)
    rounded = run(model.clone(dtype="bfloat16"), variables, batch)
    assert rounded.dtype == jnp.float32
    np.testing.assert_allclose(rounded[:2], logits[:2], atol=0.1, rtol=0.05)
    assert not np.array_equal(rounded, logits)


@pytest.mark.parametrize("name", MODELS)
def test_the_output_layer_and_the_next_sentence_are_the_heads_of_the_whole_pass(name, weights_of, run):
    model, batch = MODELS[name].clone(head="pretrain"), make_batch(8)
    variables = weights_of(model)
    tokens, next_sentence = run(model, variables, batch)
    hidden = run(model, variables, batch, method="hidden_states")
    table, bias = run(model, variables, method="output_layer")
    np.testing.assert_allclose(tokens, hidden @ table.T + bias[None, None], atol=1e-5)
    with_batch = run(model, variables, hidden, batch, method="next_sentence")
    np.testing.assert_allclose(with_batch, next_sentence, atol=1e-6)
    assert run(model, variables, hidden, method="next_sentence").shape == (3, 2)


def test_wrong_fields_are_named(weights_of, run):
    for change, message in (
        (dict(head="clasify"), "model.head='clasify'.*did you mean 'classify'"),
        (dict(pool="max"), "model.pool='max'.*first, mean, pair, rms"),
        (dict(pool="pair", head="pretrain"), "model.pool='pair' must be 'first', 'mean' or 'rms'"),
        (dict(outputs=0), "model.outputs=0"),
        (dict(head_dropout=1.0), r"model.head_dropout=1.0 must be in \[0, 1\)"),
    ):
        model = MODELS["embbert"].clone(**change)
        with pytest.raises(errors.ConfigError, match=message):
            model.init(jax.random.key(0), model.example())
    model = MODELS["embbert"].clone(head="classify")
    variables = weights_of(model)
    with pytest.raises(errors.ConfigError, match="model.head='classify' must be 'pretrain'"):
        run(model, variables, method="output_layer")
