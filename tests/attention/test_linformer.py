import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import linformer, softmax
from lwt.attention.parts import masks


def made(**more):
    module = linformer.Attention(width=16, heads=2, **more)
    return module, jax.jit(module.init)(jax.random.key(0), jnp.ones((1, 3, 16)))


@pytest.mark.parametrize("shared", [True, False])
def test_equals_the_papers_equation_in_float64(shared):
    module, variables = made(shared=shared, max_length=9, rank=3)
    x, context = (jax.random.normal(jax.random.key(i), (2, n, 16)) for i, n in ((1, 5), (2, 7)))
    real = np.array([[1, 1, 1, 1, 1, 0, 0], [1, 1, 0, 1, 1, 1, 1]])
    ours = jax.jit(module.apply)(variables, x, context, masks.Mask(jnp.asarray(real)))

    w = {name: np.float64(leaf) for name, leaf in trees.flatten(variables["params"]).items()}

    def project(name, x):
        return np.float64(x) @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    q, k, v = project("query", x), project("key", context), project("value", context)
    e, f = (w["rows/kernel" if shared else f"{name}_rows/kernel"] for name in ("key", "value"))
    mixed = np.zeros((2, 5, 16))
    for b in range(2):
        for head in (slice(0, 8), slice(8, 16)):
            low_k, low_v = (
                sum(np.outer(m[s], y[b, s, head]) for s in np.flatnonzero(real[b])) for m, y in ((e, k), (f, v))
            )
            scores = np.exp(q[b, :, head] @ low_k.T / np.sqrt(8))
            mixed[b, :, head] = scores / scores.sum(-1, keepdims=True) @ low_v
    np.testing.assert_allclose(ours, mixed @ w["out/kernel"] + w["out/bias"], atol=1e-5)


def test_rows_that_are_the_positions_give_softmax_attention():
    module, variables = made(max_length=6, rank=6)
    params = {**variables["params"], "rows": {"kernel": jnp.eye(6)}}
    x = jax.random.normal(jax.random.key(1), (2, 6, 16))
    plain = {name: leaf for name, leaf in params.items() if name != "rows"}
    expected = jax.jit(softmax.Attention(width=16, heads=2).apply)({"params": plain}, x)
    np.testing.assert_allclose(jax.jit(module.apply)({"params": params}, x), expected, atol=1e-6)


def test_weights_and_their_variance():
    (_, one), (_, two) = made(rank=40), made(rank=40, shared=False)
    assert trees.count(two["params"]) - trees.count(one["params"]) == 512 * 40
    assert one["params"]["rows"]["kernel"].var() == pytest.approx(1 / (512 + 40), rel=0.05)  # 20,480 draws


def test_longer_rows_are_refused():
    module, variables = made(max_length=4)
    with pytest.raises(errors.ConfigError, match="'linformer': max_length=4 is less than 5"):
        module.apply(variables, jnp.ones((1, 5, 16)))
    with pytest.raises(errors.ConfigError, match="rank=0"):
        made(rank=0)


def test_memory_grows_with_the_length():
    module, variables = made(max_length=4096, rank=8)
    gradient = jax.jit(jax.grad(lambda variables, x: module.apply(variables, x).sum()))

    def scratch(length):
        x = jax.ShapeDtypeStruct((1, length, 16), jnp.float32)
        return gradient.lower(variables, x).compile().memory_analysis().temp_size_in_bytes

    assert scratch(4096) < 2.2 * scratch(2048)
