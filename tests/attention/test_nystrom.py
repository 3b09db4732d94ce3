import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import nystrom
from lwt.attention.parts import masks

X = jax.random.normal(jax.random.key(1), (2, 13, 16))
REAL = np.array([[1] * 10 + [0] * 3, [1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1]])


def made(**more):
    """A module whose last projection is the identity, and its weights."""
    module = nystrom.Attention(width=16, heads=2, **more)
    params = jax.jit(module.init)(jax.random.key(0), jnp.ones((1, 3, 16)))["params"]
    return module, {"params": {**params, "out": {"kernel": jnp.eye(16), "bias": jnp.zeros(16)}}}


def heads(variables, x):
    """Queries (scaled), keys and values `[b h t k]` in float64."""
    w = trees.flatten(variables["params"])

    def split(a):
        return a.reshape(*a.shape[:2], 2, 8).swapaxes(1, 2)

    q, k, v = (
        split(np.float64(x) @ np.float64(w[f"{name}/kernel"]) + np.float64(w[f"{name}/bias"]))
        for name in ("query", "key", "value")
    )
    return q / np.sqrt(8), k, v


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(variables, x):
    """Softmax attention without a mask: the output, the weights and the values."""
    q, k, v = heads(variables, x)
    weights = softmax(q @ k.swapaxes(2, 3))
    return (weights @ v).swapaxes(1, 2).reshape(x.shape), weights, v


def run(module, variables, x, real=None):
    mask = None if real is None else masks.Mask(jnp.asarray(real))
    return np.asarray(jax.jit(module.apply)(variables, x, None, mask))


def test_equals_the_papers_equation_in_float64_with_an_exact_pseudo_inverse():
    module, variables = made(landmarks=4, iterations=14)
    ours = run(module, variables, X, REAL)
    q, k, v = heads(variables, X)
    for row in range(2):
        places = np.flatnonzero(REAL[row])
        segment = [[p for i, p in enumerate(places) if i * 4 // len(places) == m] for m in range(4)]
        for h, part in enumerate((slice(0, 8), slice(8, 16))):
            q_low, k_low = (np.stack([y[row, h, s].mean(0) for s in segment]) for y in (q, k))
            left, core = softmax(q[row, h] @ k_low.T), softmax(q_low @ k_low.T)
            right = softmax(q_low @ k[row, h, places].T)
            expected = left @ np.linalg.pinv(core) @ right @ v[row, h, places]
            np.testing.assert_allclose(ours[row, places, part], expected[places], atol=2e-4)


@pytest.mark.parametrize("iterations", [6, 20])
def test_a_row_of_no_more_positions_than_landmarks_is_softmax_attention(iterations):
    """With A = U S Vᵀ the iteration stays V z Uᵀ, so that what A Z A V misses of A V is known beforehand."""
    module, variables = made(iterations=iterations)
    expected, weights, values = attention(variables, X)
    bounds = []
    for a, v in zip(weights.reshape(-1, 13, 13), values.reshape(-1, 13, 8)):
        s = np.linalg.svd(a, compute_uv=False)
        distance = 1 - s**2 / a.sum(0).max()
        for _ in range(iterations):
            distance = (3 * distance**3 + distance**4) / 4
        bounds.append((s * distance).max() * np.linalg.norm(v))
    error = np.linalg.norm(run(module, variables, X) - expected)
    assert error <= np.linalg.norm(bounds) + 2e-4 < {6: 0.05, 20: 0.005}[iterations] * np.linalg.norm(expected)


def test_the_error_falls_with_more_landmarks():
    walk = jnp.cumsum(jax.random.normal(jax.random.key(2), (1, 64, 16)), axis=1) / 4
    missed = []
    for landmarks in (2, 8, 32):
        module, variables = made(landmarks=landmarks, iterations=12)
        expected = attention(variables, walk)[0]
        missed.append(np.linalg.norm(run(module, variables, walk) - expected) / np.linalg.norm(expected))
    assert missed[0] > 4 * missed[1] > 16 * missed[2]


def test_segments_are_of_real_positions():
    real = jnp.array([[1, 1, 0, 1, 1, 1, 0], [0, 1, 0, 0, 0, 1, 0], [0] * 7], bool)
    first, second, none = np.asarray(nystrom.segments(real, 3))
    assert [np.flatnonzero(s).tolist() for s in first] == [[0, 1], [3, 4], [5]]
    assert [np.flatnonzero(s).tolist() for s in second] == [[1], [5], []]
    assert not none.any()


def test_a_row_of_padding_is_finite_with_its_gradients():
    module, variables = made(landmarks=4, kernel_size=3)

    def loss(variables):
        return (module.apply(variables, X, None, masks.Mask(jnp.zeros((2, 13), int))) ** 2).sum()

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.jit(jax.grad(loss))(variables)))


def test_the_convolution_adds_neighbouring_values():
    module, variables = made(landmarks=4, kernel_size=3)
    plain = module.clone(kernel_size=0)
    kernel = np.asarray(variables["params"].pop("conv_kernel"))
    with_kernel = {"params": {**variables["params"], "conv_kernel": kernel}}
    added = run(module, with_kernel, X, REAL) - run(plain, variables, X, REAL)
    values = heads(variables, X)[2] * REAL[:, None, :, None]
    for h, part in enumerate((slice(0, 8), slice(8, 16))):
        for channel in range(8):
            for row in range(2):
                y = np.correlate(values[row, h, :, channel], kernel[:, h], mode="same")
                np.testing.assert_allclose(added[row, :, part][:, channel], y, atol=1e-5)


def test_wrong_fields_are_refused():
    for wrong in ({"kernel_size": 4}, {"landmarks": 0}, {"iterations": 0}):
        with pytest.raises(errors.ConfigError, match="'nystrom': {}={}".format(*next(iter(wrong.items())))):
            made(**wrong)


def test_memory_grows_with_the_length():
    module, variables = made(landmarks=8)
    gradient = jax.jit(jax.grad(lambda variables, x: module.apply(variables, x).sum()))

    def scratch(length):
        x = jax.ShapeDtypeStruct((1, length, 16), jnp.float32)
        return gradient.lower(variables, x).compile().memory_analysis().temp_size_in_bytes

    assert scratch(4096) < 2.2 * scratch(2048)
