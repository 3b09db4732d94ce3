import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import patch, position


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def convolve(images, kernel, *, stride, padding):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(images, kernel, (stride, stride), padding, dimension_numbers=layout)


def test_patches_times_a_kernel_are_a_convolution():
    images, kernel = normal(0, 2, 6, 9, 2), normal(1, 3, 3, 2, 5)
    found = patch.patches(images, 3) @ kernel.reshape(18, 5)
    wanted = convolve(images, kernel, stride=3, padding="VALID")
    assert found.shape == (2, 6, 5)
    np.testing.assert_allclose(found, wanted.reshape(2, 6, 5), atol=1e-5)


@pytest.mark.parametrize("size, stride, side", [(3, 2, 8), (3, 2, 7), (3, 1, 5), (5, 2, 6)])
def test_windows_times_a_kernel_are_a_convolution(size, stride, side):
    images, kernel = normal(0, 2, side, side + 2, 2), normal(1, size, size, 2, 3)
    found = patch.windows(images, size=size, stride=stride) @ kernel.reshape(-1, 3)
    wanted = convolve(images, kernel, stride=stride, padding=[(size // 2, size // 2)] * 2)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_the_pooled_stem_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    images, module = normal(0, 2, 9, 12, 3), patch.PoolStem((4, 6))
    variables = module.init(jax.random.key(0), images)
    layers = []
    for i, (channels, width) in enumerate(((3, 4), (4, 6))):
        conv = torch.nn.Conv2d(channels, width, 3, padding=1, bias=False)
        kernel = np.array(variables["params"][f"conv_{i}"]["kernel"]).reshape(3, 3, channels, width)
        conv.weight.data = torch.tensor(kernel.transpose(3, 2, 0, 1))
        layers += [conv, torch.nn.ReLU(), torch.nn.MaxPool2d(3, stride=2, padding=1)]
    theirs = torch.nn.Sequential(*layers)(torch.tensor(np.array(images.transpose(0, 3, 1, 2))))
    found = module.apply(variables, images)
    assert found.shape == (2, 3, 3, 6)
    np.testing.assert_allclose(found, theirs.detach().numpy().transpose(0, 2, 3, 1), atol=1e-6)


def test_positions_of_a_grid_are_those_of_row_and_column():
    table = position.sinusoidal_2d(3, 5, width=8).reshape(3, 5, 8)
    row, column = position.sinusoidal(jnp.arange(3), 4), position.sinusoidal(jnp.arange(5), 4)
    np.testing.assert_array_equal(table[2, 4], jnp.concatenate([row[2], column[4]]))
    assert len(np.unique(np.round(table.reshape(15, 8), 5), axis=0)) == 15
