"""LH-ViT and the plain CNN: shapes and counts, fold and unfold, who attends to whom, the convolutions' references."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import image_conv
from lwt.models import cnn, lh_vit

TINY = dict(
    image_size=32, outputs=3, stem=8, widths=(8, 8, 16), width=8, heads=2, hidden=16, layers=1, patch=2, summary=16
)


def size(model):
    return trees.count(trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"]))


def test_exact_counts():
    assert size(lh_vit.LHViT()) == 231_866 and size(cnn.CNN()) == 587_832

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


@pytest.mark.parametrize("model", [lh_vit.LHViT(**TINY), cnn.CNN(image_size=32, outputs=3, widths=(8, 16))])
def test_shapes_heads_and_bfloat16(model, weights_of, run):
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


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(2, 7, 6, 5), (1, 8, 8, 4)])
def test_depthwise_convolution_is_xla_s(shape, stride):
    x, kernel = (jax.random.normal(jax.random.key(i), s) for i, s in enumerate((shape, (3, 3, shape[-1]))))

    def reference(x, kernel):
        return jax.lax.conv_general_dilated(
            x, kernel[:, :, None], (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=x.shape[-1],
        )  # fmt: skip

    def mine(x, kernel):
        return image_conv.depthwise(x, kernel, stride=stride)

    y, pull = jax.vjp(mine, x, kernel)
    wanted, pull_reference = jax.vjp(reference, x, kernel)
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    dy = jax.random.normal(jax.random.key(2), y.shape)
    for gradient, reference_gradient in zip(pull(dy), pull_reference(dy), strict=True):
        np.testing.assert_allclose(gradient, reference_gradient, atol=1e-4)


def test_squeeze_and_excitation_by_hand():
    model, x = image_conv.SqueezeExcite(reduction=2), jax.random.normal(jax.random.key(0), (2, 3, 3, 4))
    params = model.init(jax.random.key(1), x)["params"]
    squeezed = nn.relu(x.mean((1, 2)) @ params["fc1"]["kernel"] + params["fc1"]["bias"])
    weights = nn.sigmoid(squeezed @ params["fc2"]["kernel"] + params["fc2"]["bias"])
    assert weights.shape == (2, 4)
    np.testing.assert_allclose(model.apply({"params": params}, x), x * weights[:, None, None, :], rtol=1e-5)


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
