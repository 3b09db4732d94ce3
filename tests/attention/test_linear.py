import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import linear, softmax
from lwt.attention.parts import masks


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [3, 12])  # by pairs, by sums
def test_elu_equals_a_loop_over_the_formula(n, causal):
    module = linear.Attention(width=8, heads=2, block=5)
    x = normal(0, 1, n, 8)
    variables = module.init(jax.random.key(1), x)
    ours = module.apply(variables, x, None, masks.Mask(causal=causal))[0]

    w = {name: np.asarray(leaf, np.float64) for name, leaf in trees.flatten(variables["params"]).items()}

    def project(name, x):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def phi(x):
        return np.where(x > 0, x + 1, np.exp(x))

    q, k, v = (project(name, np.asarray(x[0], np.float64)).reshape(n, 2, 4) for name in ("query", "key", "value"))
    mixed = np.zeros((n, 2, 4))
    for head in range(2):
        for i in range(n):
            weights = [phi(q[i, head]) @ phi(k[j, head]) for j in range(i + 1 if causal else n)]
            mixed[i, head] = sum(weight * v[j, head] for j, weight in enumerate(weights)) / sum(weights)
    np.testing.assert_allclose(ours, project("out", mixed.reshape(n, 8)), atol=1e-6)


@pytest.mark.parametrize("features", ["elu", "random"])
@pytest.mark.parametrize("n", [8, 11])  # whole blocks, and not
def test_causal_equals_its_quadratic_form_and_so_does_its_gradient(n, features):
    module = linear.Attention(width=8, heads=2, features=features, block=4)
    q, v, g = normal(0, 3, 2, n, 4), normal(1, 3, 2, n, 4), normal(2, 3, 2, n, 4)
    k = jnp.exp(0.5 * normal(3, 3, 2, n, module.feature_count))
    segments = jnp.ones((3, n), int).at[1, 2].set(0)
    mask = masks.Mask(segments, causal=True)
    by_pairs = mask.replace(query_segments=jnp.ones_like(segments))

    @jax.jit
    def results(mask):
        mixed, gradient = jax.vjp(
            lambda q, k, v: module.mix(q, {"key": k, "value": v}, mask=mask, dtype="float32"), q, k, v
        )
        return mixed, *gradient(g)

    for ours, expected in zip(results(mask), results(by_pairs)):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_random_features_come_nearer_to_softmax_the_more_there_are():
    x = 0.5 * normal(0, 2, 20, 16)
    full = softmax.Attention(width=16, heads=2)
    variables = full.init(jax.random.key(1), x)
    expected = full.apply(variables, x)

    def error(count):
        modules = (linear.Attention(width=16, heads=2, features="random", count=count, seed=i) for i in range(5))
        off = np.mean([(m.apply(variables, x) - expected) ** 2 for m in modules])
        return np.sqrt(off / np.mean((expected - expected.mean(1, keepdims=True)) ** 2))

    few, more, many = error(16), error(256), error(4096)  # 1/√m, once they are enough: a quarter each time
    assert more < few / 2 and many < more / 4 and many < 0.12


def test_orthogonal_directions_estimate_without_bias_and_better_than_independent_ones():
    k, draws = 8, 40_000
    x = y = np.full(k, 0.5 / np.sqrt(k))

    def estimates(w):  # of exp(x·y), from k directions each
        return np.exp(w.reshape(draws, k, k) @ (x + y)).mean(-1) * np.exp(-(x @ x + y @ y) / 2)

    orthogonal = estimates(linear.directions(draws * k, k, seed=0))
    independent = estimates(np.random.default_rng(1).normal(size=(draws, k, k)))
    assert abs(orthogonal.mean() - np.exp(x @ y)) < 4 * orthogonal.std() / np.sqrt(draws)
    assert orthogonal.var() < 0.9 * independent.var()


def test_directions_are_orthogonal_in_groups_and_made_from_the_seed():
    w = linear.directions(12, 8, seed=3)
    assert w.shape == (12, 8)
    products = w @ w.T
    for group in (slice(0, 8), slice(8, 12)):
        np.testing.assert_allclose(products[group, group], np.diag(np.diag(products)[group]), atol=1e-5)
    np.testing.assert_array_equal(w, linear.directions.__wrapped__(12, 8, seed=3))
    assert not np.allclose(w, linear.directions(12, 8, seed=4))


def test_features_of_wide_heads_stay_finite():
    w = linear.directions(2048, 256, seed=0)
    assert (w**2).sum(-1).max() / 2 > 89  # the exponent of a key that is a direction; float32 ends below e^89
    assert np.isfinite(jnp.exp(linear.exponents(jnp.asarray(w), w))).all()


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("width", [128, 256])
def test_wide_heads_with_random_features_learn(width, scale):
    module = linear.Attention(width=width, heads=1, features="random")
    x = scale * normal(0, 2, 12, width)
    variables = module.init(jax.random.key(1), x)

    def total(params):
        return (module.apply({"params": params}, x) ** 2).sum()

    gradient = jax.grad(total)(variables["params"])["value"]["kernel"]
    assert float(jnp.abs(gradient).max()) > 1e-3 and np.isfinite(gradient).all()


@pytest.mark.parametrize("features", ["elu", "random"])
@pytest.mark.parametrize("causal", [False, True])
def test_nothing_to_see_and_far_too_large_inputs_stay_finite(features, causal):
    module = linear.Attention(width=8, heads=2, features=features, block=4)
    x = 100 * normal(0, 2, 9, 8)
    variables = module.init(jax.random.key(1), x)
    mask = masks.Mask(jnp.ones((2, 9), int).at[0].set(0), causal=causal)
    output, gradient = jax.jit(jax.value_and_grad(lambda x: (module.apply(variables, x, None, mask) ** 2).sum()))(x)
    assert np.isfinite(output) and np.isfinite(gradient).all()


@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_with_the_length_forward_and_backward(gradient_of_mix, causal):
    module = linear.Attention(width=8, heads=1)

    def memory(n):
        return gradient_of_mix(module, n, causal=causal).memory_analysis().temp_size_in_bytes

    assert memory(16384) < 4.4 * memory(4096)


def test_the_decode_cache_does_not_grow_with_the_length():
    module = linear.Attention(width=16, heads=2, features="random")
    assert module.feature_count == 24  # 8·⌈ln 8⌉
    assert {trees.nbytes(module.empty_cache(3, length)) for length in (10, 1000)} == {3 * 2 * 24 * 9 * 4}


@pytest.mark.parametrize(
    "bad", [{"features": "relu"}, {"count": 7}, {"features": "random", "count": -1}, {"block": 0}, {"seed": -1}]
)
def test_bad_fields_are_refused(bad):
    field = list(bad)[-1]
    with pytest.raises(errors.ConfigError, match=f"'linear': {field}={bad[field]!r}"):
        linear.Attention(width=8, heads=2, **bad).init(jax.random.key(0), jnp.ones((1, 3, 8)))
