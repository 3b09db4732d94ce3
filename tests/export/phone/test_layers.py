"""Other forms of layers compute the same function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.export.phone import layers
from lwt.layers import image_conv
from lwt.models import embbert, mamba


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (
            embbert.Embbert(
                9, max_length=7, width=6, reduced=3, layers=2, kernel_size=19, expansion=2, head="classify"
            ),
            {"ids": jnp.array([[3, 1, 8, 5, 0]]), "segments": jnp.array([[1, 1, 2, 2, 0]])},
        ),
        (
            mamba.Mamba(9, max_length=7, width=12, layers=2, head="classify"),
            {"ids": jnp.array([[3, 1, 8, 5, 7]]), "segments": jnp.array([[1, 1, 2, 2, 2]])},
        ),
        (
            image_conv.Separable(5, kernel_size=3, stride=2, use_bias=True),
            jnp.asarray(np.random.default_rng(0).normal(size=(1, 7, 6, 12)), jnp.float32),
        ),
    ],
    ids=["embbert", "mamba", "separable"],
)
def test_other_forms_equal_the_layers(model, batch):
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), batch)["params"]))
    generator = np.random.default_rng(0)
    params = trees.unflatten({n: jnp.asarray(generator.normal(0, 0.5, w.shape), "float32") for n, w in shapes.items()})
    own = jax.jit(model.apply)({"params": params}, batch)
    with layers.forms(batch):
        formed = jax.jit(lambda params, batch: model.apply({"params": params}, batch)).lower(params, batch)
    assert "feature_group_count = 12" in formed.as_text()
    np.testing.assert_allclose(formed.compile()(params, batch), own, atol=2e-5 * np.abs(own).max())
