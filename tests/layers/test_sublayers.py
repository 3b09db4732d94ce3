"""Sublayers with fewer heads or units, and what `sizes` may say."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention import linear, softmax
from lwt.layers import mlp, sublayers
from lwt.models import vit

SMALL = dict(width=16, heads=4, hidden=12, layers=2, image_size=4)


def shapes(make):
    module = make(name="made") if isinstance(make, functools.partial) else make
    found = jax.eval_shape(lambda: module.init(jax.random.key(0), jnp.ones((1, 3, 16))))
    return jax.tree.map(lambda leaf: leaf.shape, found["params"])


def test_a_pruned_sublayer_keeps_the_width_of_its_heads():
    model = vit.ViT(**SMALL, sizes={"block_0/attention": 3, "block_1/mlp": 5})
    made = model.sublayers()
    assert {name: part.size for name, part in made.items()} == {
        "block_0/attention": 3, "block_1/attention": 4, "block_0/mlp": 12, "block_1/mlp": 5,
    }  # fmt: skip
    assert shapes(made["block_0/attention"].make())["query"]["kernel"] == (16, 3 * 4)
    assert shapes(made["block_1/attention"].make())["query"]["kernel"] == (16, 16)
    assert shapes(made["block_1/mlp"].make())["fc1"]["kernel"] == (16, 5)


@pytest.mark.parametrize("maker, is_attention, last", [(softmax.Attention, True, "out"), (mlp.MLP, False, "fc2")])
def test_nothing_left_is_the_last_bias(maker, is_attention, last):
    module = sublayers.Sublayer(maker, 16, 4, 0, is_attention).make()()
    x, bias = jnp.ones((2, 3, 16)), jnp.arange(16.0)
    found = module.apply({"params": {last: {"bias": bias}}}, x)
    np.testing.assert_array_equal(found, jnp.broadcast_to(bias, x.shape))
    step, cache = module.apply({"params": {last: {"bias": bias}}}, x[:, :1], cache={}, index=0)
    np.testing.assert_array_equal(step, found[:, :1])
    assert cache == module.empty_cache(2, 9) == module.project(x) == {}


def test_only_softmax_attention_with_equally_many_heads_can_be_pruned():
    for maker, can in (
        (softmax.Attention, True),
        (functools.partial(softmax.Attention, kv_heads=2), False),
        (linear.Attention, False),
    ):
        assert sublayers.Sublayer(maker, 16, 4, None, True).prunable is can
    assert sublayers.Sublayer(mlp.MLP, 16, 12, None, False).prunable


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"block_9/mlp": 1}, "there is no module 'block_9/mlp'; did you mean 'block_1/mlp'|did you mean 'block_0/mlp'"),
        ({"block_0/mlp": 13}, "block_0/mlp is 13; it must be from 0 to 12"),
        ({"block_0/mlp": -1}, "block_0/mlp is -1; it must be from 0 to 12"),
        ({"block_0/mlp": 2.5}, "block_0/mlp is 2.5; it must be"),
        ({"block_0/mlp": True}, "block_0/mlp is True; it must be"),
    ],
)
def test_sizes_that_do_not_fit_are_named(sizes, message):
    with pytest.raises(errors.ConfigError, match=message):
        vit.ViT(**SMALL, sizes=sizes).sublayers()


def test_an_attention_that_cannot_lose_heads_is_named():
    model = vit.ViT(**SMALL, attention=linear.Attention, sizes={"block_0/attention": 2})
    with pytest.raises(errors.ConfigError, match="model.sizes: block_0/attention is not a softmax attention"):
        model.sublayers()
