import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention import folded, softmax
from lwt.attention.parts import masks
from lwt.models import lh_vit


def made(**more):
    module = folded.Attention(width=16, heads=4, **more)
    plain = softmax.Attention(width=16, heads=4)
    return module, jax.jit(plain.init)(jax.random.key(0), jnp.ones((1, 3, 16)))


@pytest.mark.parametrize("length", [9, 11])
@pytest.mark.parametrize("causal", [False, True])
def test_a_sequence_equals_softmax_attention_with_the_pattern_as_its_mask(length, causal):
    """Padding, texts in a row and lengths that places do not divide; the pattern is given as texts of their own."""
    module, variables = made(places=3)
    x = jax.random.normal(jax.random.key(1), (2, length, 16))
    text = jnp.array([[1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0], [1] * 11])[:, :length]
    ours = jax.jit(module.apply)(variables, x, None, masks.Mask(text, text, causal=causal))
    both = jnp.where(text > 0, 3 * text + jnp.arange(length) % 3, 0)
    plain = softmax.Attention(width=16, heads=4)
    expected = jax.jit(plain.apply)(variables, x, None, masks.Mask(both, both, causal=causal))
    real = np.asarray(text > 0)
    np.testing.assert_allclose(np.asarray(ours)[real], np.asarray(expected)[real], atol=1e-6)


@pytest.mark.parametrize("block", [0, 2])
def test_a_map_equals_lh_vits_unfold_attend_and_fold(block):
    module, variables = made(places=4, side=6, block=block)
    x = jax.random.normal(jax.random.key(1), (2, 36, 16))
    patches = lh_vit.unfold(x.reshape(2, 6, 6, 16), 2).reshape(8, 9, 16)
    attended = jax.jit(softmax.Attention(width=16, heads=4).apply)(variables, patches)
    expected = lh_vit.fold(attended.reshape(2, 4, 9, 16), (6, 6), size=2).reshape(2, 36, 16)
    np.testing.assert_allclose(jax.jit(module.apply)(variables, x), expected, atol=1e-6)


def test_padding_of_a_map_is_not_seen():
    module, variables = made(places=4, side=4)
    x = jax.random.normal(jax.random.key(1), (1, 16, 16))
    real = jnp.arange(16)[None] < 12
    output = jax.jit(jax.grad(lambda x: module.apply(variables, x, None, masks.Mask(real.astype(int)))[0, 0].sum()))
    assert np.flatnonzero(np.abs(output(x)[0]).sum(-1)).tolist() == [0, 2, 8, 10]


def test_a_step_reads_a_place_only():
    module, _ = made(places=4)
    cache = module.empty_cache(2, 10)
    assert cache["key"].shape == (2, 4, 4, 3, 4)
    new = {name: jnp.ones((2, 4, 1, 4)) for name in cache}
    assert np.argwhere(module.extend(cache, new, index=6)["value"][0, 0, :, :, 0]).tolist() == [[2, 1]]


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"places": 4, "side": 3}, "places=4.*side=3"),
        ({"places": 3, "side": 3}, "places=3.*square"),
        ({"places": 4, "side": 2}, "side=2 does not fit 5 positions.*model.pool"),
        ({"places": 0}, "places=0"),
    ],
)
def test_what_does_not_fit_is_refused(fields, words):
    module, variables = made(**fields)
    with pytest.raises(errors.ConfigError, match=words):
        module.apply(variables, jnp.ones((1, 5, 16)))


def test_a_map_is_not_causal():
    module, variables = made(places=1, side=2)
    with pytest.raises(errors.ConfigError, match="side=2: a map has no causal form"):
        module.apply(variables, jnp.ones((1, 4, 16)), None, masks.Mask(causal=True))
