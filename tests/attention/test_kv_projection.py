import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.attention import kv_projection, softmax
from lwt.attention.parts import masks


def rows(seed, length, width=16):
    return jax.random.normal(jax.random.key(seed), (2, length, width))


def random_like(params, seed):
    flat = trees.flatten(params)
    random = np.random.default_rng(seed)
    return trees.unflatten({name: jnp.asarray(random.normal(0, 0.5, w.shape), w.dtype) for name, w in flat.items()})


def written(seed=0, **fields):
    module = kv_projection.Attention(width=16, heads=4, **fields)
    return module, random_like(module.init(jax.random.key(0), rows(0, 3))["params"], seed)


@pytest.mark.parametrize("shared", [True, False])
def test_is_the_formula_of_the_text(shared):
    module, params = written(rank=3, shared=shared)
    x = rows(1, 5)
    ours = module.apply({"params": params}, x)

    w = {name: np.asarray(leaf, np.float64) for name, leaf in trees.flatten(params).items()}

    def of(kernel, head, n):
        return kernel if shared else kernel[n * head : n * (head + 1)]

    heads = []
    for head in range(4):
        part = slice(4 * head, 4 * head + 4)
        q, k, v = (
            (np.asarray(x, np.float64) @ w[f"{name}/full/kernel"] + w[f"{name}/full/bias"])[..., part]
            @ of(w[f"{name}/rank/kernel"], head, 4)
            for name in ("query", "key", "value")
        )
        scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(3))
        mixed = scores / scores.sum(-1, keepdims=True) @ v
        heads.append(mixed @ of(w["out/rank/kernel"], head, 3))
    expected = np.concatenate(heads, -1) @ w["out/full/kernel"] + w["out/full/bias"]
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "fields",
    [{}, {"shared": False}, {"mixing": True}, {"kv_heads": 2, "shared": False}, {"use_bias": False}, {"head_width": 6}],
)
def test_folding_gives_softmax_attention_with_narrower_heads(fields):
    module, params = written(rank=3, **fields)
    folded = kv_projection.fold(params, heads=4)
    plain = {key: value for key, value in fields.items() if key in ("kv_heads", "use_bias")}
    x, context, mask = rows(1, 5), rows(2, 7), masks.Mask(jnp.array([[1] * 7, [1] * 4 + [0] * 3]))
    expected = module.apply({"params": params}, x, context, mask)
    rounding = 4e-6 * np.abs(expected).max()
    for narrow in (
        softmax.Attention(width=16, heads=4, head_width=3, **plain),
        kv_projection.Attention(width=16, heads=4, rank=3, folded=True, **fields),
    ):
        found = narrow.apply({"params": folded}, x, context, mask)
        np.testing.assert_allclose(found, expected, rtol=0, atol=rounding)
        fresh = trees.flatten(narrow.init(jax.random.key(0), x)["params"])
        assert trees.differences(fresh, trees.flatten(folded)) == ""


def test_a_whole_model_is_folded_and_the_rest_of_it_left():
    _, params = written(rank=2)
    tree = {"a": {"self_attention": params}, "b": {"kernel": jnp.ones((2, 2))}}
    folded = trees.flatten(kv_projection.fold(tree, heads=4))
    assert folded["a/self_attention/query/kernel"].shape == (16, 8)
    assert folded["b/kernel"].shape == (2, 2)
    with pytest.raises(errors.ConfigError, match="to fold"):
        kv_projection.fold({"b": tree["b"]}, heads=4)


def test_with_all_dimensions_it_is_plain_attention():
    plain = softmax.Attention(width=16, heads=4)
    params = random_like(plain.init(jax.random.key(0), rows(0, 3))["params"], 1)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]  # W_q W_kᵀ = W_v W_o = 1
    rank = {"query": turn, "key": turn, "value": turn, "out": turn.T}
    whole = {name: {"full": part, "rank": {"kernel": jnp.asarray(rank[name])}} for name, part in params.items()}
    x = rows(1, 6)
    expected = plain.apply({"params": params}, x)
    got = kv_projection.Attention(width=16, heads=4, rank=4).apply({"params": whole}, x)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    folded = kv_projection.Attention(width=16, heads=4, rank=4, folded=True).apply({"params": params}, x)
    np.testing.assert_array_equal(folded, expected)


@pytest.mark.parametrize("folded", [True, False])
def test_the_cache_shrinks_by_the_ranks_share(folded):
    whole = trees.nbytes(softmax.Attention(width=16, heads=4).empty_cache(3, 5))
    for rank in (1, 2, 4):
        module = kv_projection.Attention(width=16, heads=4, rank=rank, folded=folded)
        assert trees.nbytes(module.empty_cache(3, 5)) * 4 == whole * rank


def test_operations_are_equal_at_the_break_even_length():
    assert round(kv_projection.break_even(64, 16)) == 43
    n = kv_projection.break_even(64, 16)
    assert 4 * n * n * 16 + 8 * n * 64 * 16 == pytest.approx(4 * n * n * 64)


def test_a_rank_above_the_heads_width_is_refused():
    with pytest.raises(errors.ConfigError, match="rank=5"):
        kv_projection.Attention(width=16, heads=4, rank=5).init(jax.random.key(0), rows(0, 3))


def test_matrices_of_their_own_start_as_large_as_a_shared_one():
    x = jax.random.normal(jax.random.key(1), (2, 5, 64))
    sizes = []
    for shared in (True, False):
        attention = kv_projection.Attention(64, 8, rank=4, shared=shared)
        kernel = attention.init(jax.random.key(0), x)["params"]["query"]["rank"]["kernel"]
        sizes.append(float(kernel.std()))
    assert 0.8 < sizes[1] / sizes[0] < 1.25
