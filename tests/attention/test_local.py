import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import local, softmax
from lwt.attention.parts import masks

SEGMENTS = {
    "full": None,
    "padded": np.array([[1] * 11, [1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0]]),
    "texts": np.array([[1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3], [1, 1, 1, 1, 1, 1, 2, 2, 2, 0, 0]]),
}


def dense(q, k, v, allowed):
    """Softmax attention of one row by a loop, in float64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    output = np.zeros_like(q)
    for head in range(len(q)):
        for i in range(q.shape[1]):
            seen = [j for j in range(k.shape[1]) if allowed(i, j)]
            weights = np.exp(k[head, seen] @ q[head, i])
            output[head, i] = weights @ v[head, seen] / weights.sum()
    return output


@pytest.mark.parametrize("window", [1, 4, 10])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", SEGMENTS)
def test_equals_softmax_over_the_band(rows, causal, window):
    q, k, v = jax.random.normal(jax.random.key(0), (3, 2, 2, 11, 4))
    segments = SEGMENTS[rows]
    arrays = None if segments is None else jnp.asarray(segments)
    mask = masks.Mask(arrays, arrays if rows == "texts" else None, causal=causal)
    module = local.Attention(width=8, heads=2, window=window)
    ours = jax.jit(lambda: module.mix(q, {"key": k, "value": v}, mask=mask, dtype="float32"))()
    segments = np.ones((2, 11), int) if segments is None else segments
    for row, segment in enumerate(segments):

        def near(i, j, s=segment):
            return abs(i - j) < window and s[i] == s[j] and (j <= i or not causal)

        expected = dense(q[row], k[row], v[row], near)
        real = segment > 0
        np.testing.assert_allclose(ours[row][:, real], expected[:, real], atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_equals_that_of_softmax_with_the_band_as_its_mask(causal):
    q, k, v, g = jax.random.normal(jax.random.key(0), (4, 2, 2, 11, 4))
    distance = np.arange(11)[:, None] - np.arange(11)
    band = (np.abs(distance) < 3) & (distance >= (0 if causal else -11))
    module, full = local.Attention(width=8, heads=2, window=3), softmax.Attention(width=8, heads=2)
    mask, band = masks.Mask(causal=causal), jnp.asarray(band)[None, None]

    def gradient(attend):
        return jax.jit(
            lambda: jax.vjp(lambda q, k, v: attend(q, {"key": k, "value": v}, dtype="float32"), q, k, v)[1](g)
        )()

    ours = gradient(lambda q, cache, dtype: module.mix(q, cache, mask=mask, dtype=dtype))
    expected = gradient(lambda q, cache, dtype: full.weigh(q, cache, allowed=band, dtype=dtype))
    for mine, other in zip(ours, expected):
        np.testing.assert_allclose(mine, other, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_as_long_as_the_text_is_softmax_attention(causal):
    x, mask = jax.random.normal(jax.random.key(0), (2, 7, 8)), masks.Mask(causal=causal)
    full = softmax.Attention(width=8, heads=2)
    variables = full.init(jax.random.key(1), x)
    expected = full.apply(variables, x, None, mask)
    outputs = {w: local.Attention(width=8, heads=2, window=w).apply(variables, x, None, mask) for w in (6, 7, 50)}
    np.testing.assert_allclose(outputs[7], expected, atol=1e-6)
    np.testing.assert_allclose(outputs[50], expected, atol=1e-6)
    assert not np.allclose(outputs[6], expected, atol=1e-4)


def test_the_decode_cache_holds_the_window_only():
    module = local.Attention(width=8, heads=2, window=16)
    assert {trees.nbytes(module.empty_cache(3, length)) for length in (16, 1000)} == {2 * 3 * 16 * 8 * 4}
    assert trees.nbytes(module.empty_cache(3, 5)) == 2 * 3 * 5 * 8 * 4


@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_the_length_forward_and_backward(gradient_of_mix, causal):
    module = local.Attention(width=8, heads=1, window=64)

    def memory(n):
        return gradient_of_mix(module, n, causal=causal).memory_analysis().temp_size_in_bytes

    assert memory(4096) < 4.4 * memory(1024)


def test_a_window_of_nothing_is_refused():
    with pytest.raises(errors.ConfigError, match="'local': window=0"):
        local.Attention(width=8, heads=2, window=0).init(jax.random.key(0), jnp.ones((1, 3, 8)))
