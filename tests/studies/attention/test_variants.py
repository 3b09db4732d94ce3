"""The table of attentions holds all there are, with settings that they take."""

import jax
import jax.numpy as jnp
import pytest

from lwt import registry
from studies.attention import variants

SECTIONS = variants.sections(8, length=48, reach=8)


def test_no_attention_is_left_out():
    assert set(registry.ATTENTIONS.names()) == {section["name"] for section in SECTIONS.values()}


@pytest.mark.parametrize("name", SECTIONS)
def test_they_take_their_settings(name):
    module = variants.maker(SECTIONS[name])(width=16, heads=2)
    x = jnp.ones((1, 48, 16))
    assert jax.eval_shape(lambda: module.init_with_output(jax.random.key(0), x)[0]).shape == x.shape


def test_the_settings():
    assert SECTIONS["kv_projection_half_folded"] == {"name": "kv_projection", "rank": 4, "folded": True}
    assert SECTIONS["kv_projection_quarter"]["rank"] == 2
    wide = variants.sections(64, length=16_384, reach=128)
    assert wide["sparse_fixed"] == {"name": "sparse", "pattern": "fixed", "stride": 128, "summary": 8}
    assert variants.describe(wide["local"]) == "local, window=128"
    assert not variants.abilities(wide["linformer"]).has_causal
