"""Factors against the theory of the truncated singular value decomposition, and as the weights of a linen layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear, text_embed
from lwt.reparam import compose
from lwt.reparam.compression import svd

TARGETS = svd.LAYERS + "|.*embedding"
NAME = "encoder/layer_0/cross_attention/key/kernel"  # [12 20]


def factorised(base, **settings):
    reparam = svd.SVD(**settings)
    adapter = reparam.init(jax.random.key(0), base)
    return reparam, adapter, reparam.expand(reparam.stored(base), adapter, 0)


def test_full_rank_is_the_identity(base, apply):
    ids = jnp.array([3, 0, 10])
    reparam, adapter, weights = factorised(base, rank=1000, targets=TARGETS)
    np.testing.assert_allclose(apply(weights, ids), apply(base, ids), atol=2e-6)
    assert set(reparam.stored(base)) == {"encoder/layer_0/self_attention/query/bias"}
    assert adapter[f"{NAME}/a"].shape == (12, 12) and adapter[f"{NAME}/b"].shape == (12, 20)


@pytest.mark.parametrize("rank", [1, 5, 9])
def test_the_error_is_the_tail_of_the_spectrum(base, rank):
    _, adapter, weights = factorised(base, rank=rank)
    for name, node in weights.items():
        if linear.is_node(node):
            tail = np.linalg.svd(np.asarray(base[name], np.float64), compute_uv=False)[rank:]
            np.testing.assert_allclose(np.square(base[name] - node.dense()).sum(), np.square(tail).sum(), atol=1e-5)
    gram = [x @ x.T for x in (adapter[f"{NAME}/a"].T, adapter[f"{NAME}/b"])]
    np.testing.assert_allclose(*gram, atol=1e-5)  # both are √Σ: neither factor is larger


def test_what_is_stored_and_trained(base, apply):
    pattern = ((".*query/kernel", 3), (".*fc1/kernel", 2))
    reparam, adapter, weights = factorised(base, rank=4, rank_pattern=pattern)
    stored = reparam.stored(base)
    rows = {"query": 3, "key": 4, "value": 4, "fc1": 2, "fc2": 4}
    factors = [n for n, w in weights.items() if linear.is_node(w)]
    expected = sum(rows[name.split("/")[-2]] * sum(base[name].shape) for name in factors)
    assert trees.count(adapter) == expected and not set(factors) & set(stored)
    gradients = jax.grad(lambda leaves: apply(reparam.expand(stored, leaves, 0), jnp.array([1, 2])).sum())(adapter)
    assert all(np.any(g) for g in gradients.values())
    assert set(reparam.labels(adapter).values()) == {"a", "b"}


def test_linen_takes_factors_and_compares_their_shape():
    x, a, b = (jax.random.normal(jax.random.key(i), s) for i, s in enumerate(((2, 5, 6), (6, 3), (3, 4))))
    layer, node = linear.Linear(4, use_bias=False), linear.Factors(a, b)
    np.testing.assert_allclose(layer.apply({"params": {"kernel": node}}, x), x @ (a @ b), atol=1e-5)
    with pytest.raises(Exception, match="shape"):
        linear.Linear(5, use_bias=False).apply({"params": {"kernel": node}}, x)
    table = text_embed.TiedEmbed(6, 4)
    rows = table.apply({"params": {"embedding": node}}, jnp.array([[2, 5]]))
    np.testing.assert_allclose(rows[0], (a @ b)[jnp.array([2, 5])], atol=1e-5)


def test_an_adapter_on_top_is_evaluated_from_factors(base, moved, apply):
    parts = [{"name": "svd", "rank": 6}, {"name": "lora", "rank": 2}]
    reparam = compose.build({"name": "compose", "parts": parts})
    adapter = moved(reparam.init(jax.random.key(0), base))
    weights = reparam.expand(reparam.stored(base), adapter, 0)
    kept = linear.merge_floats(weights)
    query = "encoder/layer_1/self_attention/query/kernel"
    assert isinstance(kept[query], linear.LowRank) and isinstance(kept[query].base, linear.Factors)
    np.testing.assert_allclose(apply(kept, jnp.arange(4)), apply(linear.merge(weights), jnp.arange(4)), atol=1e-5)


def test_what_is_refused():
    with pytest.raises(errors.ConfigError, match="reparam.rank is 0"):
        svd.SVD(rank=0)
    with pytest.raises(errors.ConfigError, match=r"rank_pattern\['x.*'\] is 0.5"):
        svd.SVD(rank_pattern=(("x.*", 0.5),))
    with pytest.raises(errors.ConfigError, match="rank_pattern .* matches no weight"):
        svd.SVD(targets=".*w", rank_pattern=(("v", 2),)).init(jax.random.key(0), {"w": jnp.ones((2, 2))})
