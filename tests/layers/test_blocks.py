"""Blocks in a loop, and blocks that keep less for the backward pass: the same gradients, in less memory."""

import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.layers import blocks, dropout
from lwt.models import bert, embbert, mamba, seq2seq, vit

LAYERS = 3
TEXT = dict(vocabulary=24, max_length=32, width=16, layers=LAYERS)
MODELS = {
    "bert": bert.Bert(**TEXT, hidden=64, dropout=0, attention_dropout=0),
    "albert": bert.Bert(**TEXT, hidden=64, dropout=0, attention_dropout=0, shared=True),
    "embbert": embbert.Embbert(**TEXT, kernel_size=4, attention_dropout=0),
    "mamba": mamba.Mamba(**TEXT),
    "seq2seq": seq2seq.Seq2Seq(24, width=16, encoder_layers=2, decoder_layers=2, dropout=0, attention_dropout=0),
    "vit": vit.ViT(width=16, heads=2, hidden=64, layers=LAYERS, patch=8),
}
IDS = jax.random.randint(jax.random.key(1), (4, 32), 5, 24)


def batch_of(name):
    if name == "vit":
        return {"image": jax.random.normal(jax.random.key(1), (4, 32, 32, 3))}
    if name == "seq2seq":
        ones, places = jnp.ones_like(IDS), jnp.arange(32)[None].repeat(4, 0)
        sides = {f"{side}_segments": ones for side in ("source", "target")}
        return {"source": IDS, "inputs": IDS, **sides, "source_positions": places, "target_positions": places}
    return {"ids": IDS, "segments": jnp.ones_like(IDS)}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model, batch = MODELS[request.param], batch_of(request.param)
    return model, batch, model.init(jax.random.key(0), model.example())


def compiled(model, *, batch, params):
    def loss(params):
        states = model.apply(params, batch, train=True, rngs={"dropout": jax.random.key(2)}, method="hidden_states")
        return (states**2).sum()

    return jax.jit(jax.grad(loss)).lower(params).compile()


def temporary(program):
    return program.memory_analysis().temp_size_in_bytes


def same(found, expected):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), found, expected)
    return True


def test_gradients_stay_the_same(case):
    model, batch, params = case
    expected = compiled(model, batch=batch, params=params)(params)
    for change in (dict(remat="dots"), dict(scan=True, remat="blocks")):
        assert same(compiled(model.clone(**change), batch=batch, params=params)(params), expected), change


def test_a_block_that_is_computed_again_draws_the_same_dropout_masks():
    model, batch = MODELS["bert"].clone(dropout=0.3, attention_dropout=0.3, layers=2), batch_of("bert")
    params = model.init(jax.random.key(0), model.example())
    expected = compiled(model, batch=batch, params=params)(params)
    assert same(compiled(model.clone(remat="blocks"), batch=batch, params=params)(params), expected)


class Drops(nn.Module):
    """Two blocks of dropout alone."""

    scan: bool = True
    remat: str = "none"

    @nn.compact
    def __call__(self, x):
        layers = [Drop(name=f"block_{i}") for i in range(2)]
        if self.is_initializing():
            return layers[1](layers[0](x))
        return blocks.run(layers, x, model=self, train=True)


class Drop(nn.Module):
    @nn.compact
    def __call__(self, x, *, train=False):
        return dropout.Dropout(0.5)(x * self.param("scale", nn.initializers.ones_init(), ()), train=train)


def test_a_loop_draws_new_masks_for_every_block():
    x, model = jnp.ones((100, 100)), Drops()
    y = model.apply(model.init(jax.random.key(0), x), x, rngs={"dropout": jax.random.key(1)})
    assert set(np.unique(y)) == {0.0, 4.0} and abs(float((y > 0).mean()) - 0.25) < 0.03  # 0.5 with the same masks


def test_less_is_kept_in_the_memory_of_a_deep_model():
    model, batch = MODELS["bert"].clone(layers=12, scan=True), batch_of("bert")
    params = model.init(jax.random.key(0), model.example())
    sizes = {
        kept: temporary(compiled(model.clone(remat=kept), batch=batch, params=params))
        for kept in ("none", "dots", "blocks")
    }
    assert sizes["blocks"] < 0.6 * sizes["dots"] and sizes["dots"] < 0.8 * sizes["none"], sizes


def test_wrong_choices_are_refused():
    with pytest.raises(errors.ConfigError, match="model.remat='some': choose from blocks, dots, none"):
        bert.Bert(**TEXT, remat="some").init(jax.random.key(0), MODELS["bert"].example())
    model = MODELS["bert"].clone(sizes={"block_1/mlp": 8}, scan=True)
    params = model.init(jax.random.key(0), model.example())
    with pytest.raises(errors.ConfigError, match="model.scan=True: the weights of block_1 differ in shape or kind"):
        model.apply(params, batch_of("bert"), train=True, rngs={"dropout": jax.random.key(0)}, method="hidden_states")


def longest_fusion(layers):
    """The number of instructions in the largest fused computation of a translator's gradient."""
    model = MODELS["seq2seq"].clone(encoder_layers=1, decoder_layers=layers, dropout=0.1)
    params = jax.tree.map(jnp.zeros_like, jax.eval_shape(model.init, jax.random.key(0), model.example()))
    text = compiled(model, batch=batch_of("seq2seq"), params=params).as_text()
    bodies = re.findall(r"^%?fused_computation[^\n]*\{\n(.*?)^\}", text, re.M | re.S)
    return max(body.count("\n") for body in bodies)


def test_the_gradient_of_a_block_does_not_compute_the_blocks_above_it_again(monkeypatch):
    assert longest_fusion(3) == longest_fusion(1)
    monkeypatch.setattr(blocks, "once", lambda x: x)
    assert longest_fusion(3) > 2 * longest_fusion(1)  # if this fails, XLA no longer needs `once`


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_once_is_the_identity(dtype):
    x = jnp.arange(6, dtype=dtype)
    value, pull = jax.vjp(blocks.once, x)
    np.testing.assert_array_equal(value, x)
    np.testing.assert_array_equal(pull(x)[0], x)
    with blocks.exporting():
        assert "case" not in jax.jit(lambda x: blocks.once(x)).lower(x).as_text()


@pytest.mark.parametrize("barriers", [True, False])
def test_unfused_is_the_operation(barriers, monkeypatch):
    monkeypatch.setattr(blocks, "BARRIERS_HOLD", barriers)
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(lambda x: blocks.unfused(jnp.transpose, x))(x), x.T)
