"""Targets given as one pattern or as alternatives, labels of leaves, and starting values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.reparam import compose, lora
from lwt.reparam.parts import targets

LAYER = "encoder/layer_0/"
QUERIES = [f"encoder/layer_{i}/self_attention/query/kernel" for i in (0, 1)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["query", "value"], [f"{LAYER}cross_attention/value/kernel", *QUERIES]),
        (["self_attention/query"], QUERIES),
        (["self_attention.query"], QUERIES),  # as PEFT spells a path
        (["layer_1/.*/query", "fc1"], [f"{LAYER}mlp/fc1/kernel", QUERIES[1]]),
        ([".*layer_0/.*query/kernel"], QUERIES[:1]),  # a whole name
        (["embed"], ["embed/embedding"]),
        (".*query/kernel", QUERIES),
    ],
)
def test_targets_as_a_list_are_alternatives(given, expected, base):
    for value in (given, given if isinstance(given, str) else tuple(given)):
        reparam = compose.build({"name": "lora", "rank": 2, "targets": value})
        assert sorted(reparam.init(jax.random.key(0), base)) == [f"{name}/{leaf}" for name in expected for leaf in "ab"]
    assert hash(reparam) == hash(compose.build({"name": "lora", "rank": 2, "targets": given}))


@pytest.mark.parametrize("name", ["lora", "dora", "singlora", "vertical"])
def test_a_rank_above_the_size_of_a_matrix_is_refused(name):
    base = {f"block_{i}/attention/query/kernel": jax.ShapeDtypeStruct((128, 96), jnp.float32) for i in range(2)}
    for rank, fits in ((8, True), (224, True), (225, False), (100_000, False)):
        init = functools.partial(compose.build({"name": name, "rank": rank}).init, jax.random.key(0))
        if fits:
            assert jax.eval_shape(init, base)
        else:
            with pytest.raises(errors.ConfigError, match=f"reparam.rank is {rank} at .*query.*no product .* above 96"):
                jax.eval_shape(init, base)


def test_labels_tell_tables_from_kernels():
    leaves = ["embed/embedding/a", "x/kernel/a", "x/kernel/b", "x/kernel/b0", "x/kernel/magnitude"]
    assert [targets.label(leaf) for leaf in leaves] == ["embedding_a", "a", "b", "constant", "vector"]


def test_kaiming_start():
    name = "encoder/layer_0/cross_attention/value/kernel"
    wide = {name: jnp.zeros((400, 300))}
    a = lora.LoRA(rank=50).init(jax.random.key(0), wide)[f"{name}/a"]
    assert 0.995 / 20 < np.abs(a).max() <= 1 / 20
    np.testing.assert_allclose(a.std(), 1 / 20 / np.sqrt(3), rtol=0.02)


def test_best_factors_are_the_truncated_svd(base):
    w = np.asarray(base["encoder/layer_0/mlp/fc1/kernel"])
    a, b = targets.best_factors(jnp.asarray(w), 3)
    left = np.linalg.svd(w, compute_uv=False)[3:]
    assert np.linalg.norm(w - a @ b) == pytest.approx(np.linalg.norm(left), rel=1e-5)
    np.testing.assert_allclose(np.linalg.norm(a, axis=0), np.linalg.norm(b, axis=1), rtol=1e-5)


def test_rules_of_ranks_match_their_names_only():
    section = targets.ranked({"a.b/kernel": 2, "axb/kernel": 3})
    assert [targets.by_pattern(n, section["rank_pattern"], default=0) for n in ("a.b/kernel", "axb/kernel")] == [2, 3]
