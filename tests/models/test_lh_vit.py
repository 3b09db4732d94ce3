"""LH-ViT: shapes and counts, fold and unfold, who attends to whom."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.models import lh_vit

TINY = dict(
    image_size=32, outputs=3, stem=8, widths=(8, 8, 16), width=8, heads=2, hidden=16, layers=1, patch=2, summary=16
)


def size(model):
    return trees.count(trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"]))


def test_exact_counts():
    assert size(lh_vit.LHViT()) == 231_866

    def res_se(c, d):
        taps, points, norms = 9 * (c + d), c * d + d * d, 4 * d
        se = d * (d // 4) + d // 4 + (d // 4) * d + d
        return taps + points + norms + se + (c * d + 2 * d if c != d else 0)

    def radar_vit(d, side):
        block = 4 * (d * d + d) + 2 * d * 128 + 128 + d + 4 * d
        return 2 * block + 2 * (d * d + d) + 2 * side * d + 2 * d

    d, widths = 64, (24, 48, 96)
    extract = 9 * 16 + 32 + res_se(16, 24) + res_se(24, 48) + res_se(48, 96) + sum(c * d + d for c in widths)
    enhance = 2 * res_se(d, d) + radar_vit(d, 16) + radar_vit(d, 8)
    assert extract + enhance + d * 128 + 2 * 128 + 128 * 8 + 8 == 231_866


def test_shapes_heads_and_bfloat16(weights_of, run):
    model = lh_vit.LHViT(**TINY)
    variables = weights_of(model)
    assert {name for name in trees.flatten(variables["params"]) if name.startswith("head")} == {
        "head/kernel", "head/bias",
    }  # fmt: skip
    batch = {"image": jax.random.normal(jax.random.key(0), (2, 32, 32, 1))}
    logits = run(model, variables, batch)
    features = run(model, variables, batch, method="features")
    assert logits.shape == (2, 3) and features.shape == (2, 16)
    head = variables["params"]["head"]
    np.testing.assert_allclose(features @ head["kernel"] + head["bias"], logits, rtol=1e-4, atol=1e-4)
    rough = run(model.clone(dtype="bfloat16"), variables, batch)
    assert rough.dtype == jnp.float32 and 0 < abs(rough - logits).max() < 0.2 * abs(logits).max()


def test_fold_undoes_unfold():
    x = jnp.arange(2 * 6 * 4 * 3.0).reshape(2, 6, 4, 3)
    patches = lh_vit.unfold(x, 2)
    assert patches.shape == (2, 4, 6, 3)
    np.testing.assert_array_equal(
        patches[1, 2, 3], x[1, 3, 2]
    )  # place 2 (row 1, column 0) of patch 3 (row 1, column 1)
    np.testing.assert_array_equal(lh_vit.fold(patches, (6, 4), size=2), x)


def test_attention_joins_equal_places_of_patches_only(weights_of):
    """By gradient: an output sees its own place in every patch, all of them, and nothing else."""
    model, shape = lh_vit.RadarViT(width=8, heads=2, hidden=8, layers=2, patch=2), (1, 6, 4, 8)
    x = jax.random.normal(jax.random.key(1), shape)
    variables = jax.tree.map(
        lambda leaf: jnp.asarray(np.random.default_rng(0).normal(0, 0.5, leaf.shape), jnp.float32),
        jax.eval_shape(lambda: model.init(jax.random.key(0), x)),
    )

    def output(x):
        return model.apply(variables, x)[0, 3, 2].sum()

    seen = np.abs(jax.jit(jax.grad(output))(x))[0].max(-1) > 0
    rows, columns = np.indices((6, 4))
    np.testing.assert_array_equal(seen, (rows % 2 == 1) & (columns % 2 == 0))


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(image_size=48), "image_size=48 must be a multiple of 16·model.patch, 32"),
        (dict(widths=(8, 16)), "three numbers"),
        (dict(stem=12), "model.stem=12 must be a multiple of 8"),
        (dict(heads=3), "multiple of model.heads=3"),
    ],
)
def test_sizes_that_do_not_fit(change, words):
    model = lh_vit.LHViT(**{**TINY, **change})
    with pytest.raises(errors.ConfigError, match=words):
        jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))
