"""Convolutions over images against XLA's, and squeeze-and-excitation by hand."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import image_conv


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


def test_a_separable_convolution_is_depthwise_then_pointwise():
    model, x = image_conv.Separable(5, stride=2), jax.random.normal(jax.random.key(0), (2, 7, 6, 4))
    params = model.init(jax.random.key(1), x)["params"]
    y = image_conv.depthwise(x, params["depthwise"], stride=2)
    assert y.shape == (2, 4, 3, 4) and params["pointwise"].keys() == {"kernel"}
    wanted = jnp.einsum("bhwc,cd->bhwd", y, params["pointwise"]["kernel"])
    np.testing.assert_allclose(model.apply({"params": params}, x), wanted, atol=1e-5)
