"""The plain CNN equals PyTorch's convolutions and group norms with the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.models import cnn

SMALL = dict(image_size=8, outputs=3, widths=(8, 16))


@pytest.mark.parametrize(
    "fields, count", [(dict(), 587_832), (dict(widths=(16, 24, 32, 32, 32), separable=True), 9_784)]
)
def test_the_exact_count(fields, count):
    model = cnn.CNN(**fields)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"]
    assert trees.count(trees.flatten(shapes)) == count


@pytest.mark.parametrize("separable", [False, True])
def test_equals_pytorch(separable, weights_of, run):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    model = cnn.CNN(**SMALL, separable=separable)
    variables = weights_of(model)
    w = {name: torch.tensor(np.array(leaf)) for name, leaf in trees.flatten(variables["params"]).items()}
    image = jax.random.normal(jax.random.key(0), (2, 8, 8, 1))
    x = torch.tensor(np.array(image)).permute(0, 3, 1, 2)
    for i, stride in enumerate((2, 1, 2)):
        if separable and i > 0:
            kernel = w[f"layer_{i}/conv/depthwise"].permute(2, 0, 1)[:, None]  # [3 3 c] -> [c 1 3 3]
            x = functional.conv2d(x, kernel, stride=stride, padding=1, groups=x.shape[1])
            x = functional.conv2d(x, w[f"layer_{i}/conv/pointwise/kernel"].T[:, :, None, None])
        else:
            kernel = w[f"layer_{i}/conv/kernel"]  # [9·c d], the channels of a pixel side by side
            kernel = kernel.reshape(3, 3, x.shape[1], -1).permute(3, 2, 0, 1)
            x = functional.conv2d(x, kernel, stride=stride, padding=1)
        scale, bias = (w[f"layer_{i}/norm/{name}"] for name in ("scale", "bias"))
        x = functional.relu(functional.group_norm(x, x.shape[1] // cnn.GROUP, scale, bias, eps=1e-5))
    features = x.mean((2, 3))
    np.testing.assert_allclose(run(model, variables, {"image": image}, method="features"), features, atol=1e-4)
    wanted = features @ w["head/kernel"] + w["head/bias"]
    np.testing.assert_allclose(run(model, variables, {"image": image}), wanted, atol=1e-4)


def test_bfloat16_is_near_float32(weights_of, run):
    model, batch = cnn.CNN(**SMALL), {"image": jax.random.normal(jax.random.key(0), (2, 8, 8, 1))}
    variables = weights_of(model)
    exact, rough = (run(m, variables, batch) for m in (model, model.clone(dtype="bfloat16")))
    assert rough.dtype == jnp.float32 and 0 < abs(rough - exact).max() < 0.2 * abs(exact).max()


@pytest.mark.parametrize(
    "fields, words",
    [
        (dict(widths=()), r"model.widths=\(\) must be multiples of 8"),
        (dict(widths=(8, 12)), r"model.widths=\(8, 12\) must be multiples of 8"),
        (dict(channels=0), "model.channels=0 must be at least 1"),
        (dict(image_size=-1), "model.image_size=-1 must be at least 1"),
        (dict(image_size=4), r"images of shape \(8, 8, 1\) do not fit model.image_size=4"),
    ],
)
def test_sizes_that_do_not_fit(fields, words):
    model = cnn.CNN(**{**SMALL, **fields})
    with pytest.raises(errors.ConfigError, match=words):
        model.example()
        jax.eval_shape(lambda: model.init(jax.random.key(0), {"image": jnp.zeros((1, 8, 8, 1))}))
