import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.attention import softmax, sparse
from lwt.attention.parts import masks

CASES = [  # length, pattern, stride, summary: lengths that are multiples of the stride, and such that are not
    *[(15, "strided", 5, 0), (14, "strided", 4, 0), (6, "strided", 5, 0), (5, "strided", 1, 0)],
    *[(16, "fixed", 4, 1), (14, "fixed", 5, 3), (6, "fixed", 5, 5)],
]
both = pytest.mark.parametrize("causal", [False, True])


def made(pattern, stride, summary, **more):
    return sparse.Attention(width=8, heads=2, pattern=pattern, stride=stride, summary=summary or 8, **more)


def sets(n, pattern, stride, summary, causal):
    """The paper's A(1) and A(2) of every position, united: bool `[n n]`. Not causal: the same without j ≤ i."""
    allowed = np.zeros((n, n), bool)
    for i in range(n):
        if pattern == "strided":
            first = set(range(max(0, i - stride), min(n, i + stride + 1)))
            second = {j for j in range(n) if (i - j) % stride == 0}
        else:
            first = {j for j in range(n) if j // stride == i // stride}
            second = {j for j in range(n) if j % stride in range(stride - summary, stride)}
        for j in first | second:
            allowed[i, j] = j <= i or not causal
    return allowed


def check(module, mask, allowed):
    """Compares outputs and gradients with those of softmax attention with that array as its mask."""
    q, k, v, g = jax.random.normal(jax.random.key(0), (4, 2, 2, allowed.shape[-1], 4))
    real = mask.key_segments[:, None, :, None] > 0
    full = softmax.Attention(width=8, heads=2)

    def results(attend):
        output, gradient = jax.vjp(attend, q, k, v)
        return output * real, *gradient(g * real)

    def ours(q, k, v):
        return module.mix(q, {"key": k, "value": v}, mask=mask, dtype="float32")

    def dense(q, k, v):
        return full.weigh(q, {"key": k, "value": v}, allowed=jnp.asarray(allowed)[:, None], dtype="float32")

    for mine, expected in zip(jax.jit(lambda: results(ours))(), jax.jit(lambda: results(dense))()):
        np.testing.assert_allclose(mine, expected, atol=1e-5)


@both
@pytest.mark.parametrize("n,pattern,stride,summary", CASES)
def test_equals_softmax_with_the_pattern_as_its_mask(n, pattern, stride, summary, causal):
    keys = np.ones((2, n), int)
    keys[1, [2, n - 1]] = 0  # one row has padding
    allowed = sets(n, pattern, stride, summary, causal) & (keys > 0)[:, None, :]
    check(made(pattern, stride, summary), masks.Mask(jnp.asarray(keys), causal=causal), allowed)


@both
@pytest.mark.parametrize("pattern,stride,summary", [("strided", 4, 0), ("fixed", 5, 2)])
def test_every_text_in_a_row_has_the_pattern_it_has_alone(pattern, stride, summary, causal):
    segments = np.array([[1] * 2 + [2] * 7 + [3] * 5, [1] * 11 + [0] * 3])
    allowed = np.zeros((2, 14, 14), bool)
    for row, start, end in ((0, 0, 2), (0, 2, 9), (0, 9, 14), (1, 0, 11)):
        allowed[row, start:end, start:end] = sets(end - start, pattern, stride, summary, causal)
    arrays = jnp.asarray(segments)
    check(made(pattern, stride, summary), masks.Mask(arrays, arrays, causal=causal), allowed)


def test_dropout_keeps_the_mean():
    module = made("strided", 3, 0, dropout=0.5)
    q, k, v = jax.random.normal(jax.random.key(0), (3, 1, 2, 10, 4))

    def mix(key):
        return module.mix(q, {"key": k, "value": v}, mask=None, dtype="float32", key=key)

    drawn = jax.jit(jax.vmap(mix))(jax.random.split(jax.random.key(1), 3000))
    deviation = (drawn.mean(0) - mix(None)) / (drawn.std(0) / 3000**0.5)
    assert np.abs(deviation).max() < 5


@pytest.mark.parametrize("pattern", ["strided", "fixed"])
@both
def test_flops_and_memory_are_those_of_the_pattern(gradient_of_mix, pattern, causal):
    def cost(module, n):
        program = gradient_of_mix(module, n, causal=causal)
        return program.cost_analysis()["flops"], program.memory_analysis().temp_size_in_bytes

    def made(stride):
        return sparse.Attention(width=32, heads=1, pattern=pattern, stride=stride, summary=2)

    flops, memory = cost(made(32), 1024)
    dense_flops, dense_memory = cost(softmax.Attention(width=32, heads=1), 1024)
    assert flops < dense_flops / 5 and memory < dense_memory / 2
    more_flops, more_memory = cost(made(64), 4096)  # 4·√4 = 8 times, where n² is 16 times
    assert more_flops < 9 * flops and more_memory < 9 * memory


@pytest.mark.parametrize(
    "bad",
    [{"pattern": "random"}, {"stride": 0}, {"pattern": "fixed", "summary": 0}, {"pattern": "fixed", "summary": 129}],
)
def test_bad_fields_are_refused(bad):
    field = list(bad)[-1]
    with pytest.raises(errors.ConfigError, match=f"'sparse': {field}={bad[field]!r}"):
        sparse.Attention(width=8, heads=2, **bad).init(jax.random.key(0), jnp.ones((1, 3, 8)))
