"""Adapters as artefacts: strict loading, one shape for several, sums of adapters, merging."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import adapters, compose

TARGETS = ".*kernel"
SECTIONS = [
    {"name": "lora", "rank": 2, "alpha": 8.0, "targets": TARGETS},
    {"name": "lora", "rank": 5, "alpha": 3.0, "scaling": "rslora", "targets": TARGETS},
    {"name": "lora", "rank": 3, "start": "pissa", "targets": TARGETS, "rank_pattern": [[".*fc1.*", 1]]},
    {"name": "singlora", "rank": 4, "ramp": 10, "targets": TARGETS},
]
IDS = jnp.array([1, 4, 7, 7])


@pytest.fixture
def family(base, moved):
    """One adapter of each section, all on one base."""

    def adapter(i, section):
        leaves = moved(compose.build(section).init(jax.random.key(i), base), seed=i)
        return adapters.Adapter(leaves, section, "base", step=5)

    return [adapter(i, section) for i, section in enumerate(SECTIONS)]


def change(adapter, base):
    return {name: np.array(linear.dense(w) - base[name]) for name, w in adapter.expand(base).items()}


def test_switching_adapters_of_different_ranks_compiles_once(base, apply, family):
    plain = [adapters.low_rank(adapter, base, rank=8) for adapter in family]
    assert len({adapter.reparam for adapter in plain}) == 1
    reparam = plain[0].reparam
    step = jax.jit(lambda leaves, base, ids: apply(reparam.expand(base, leaves, 0), ids))
    for adapter, original in zip(plain, family, strict=True):
        expected = apply(original.expand(base), IDS)
        np.testing.assert_allclose(step(adapter.leaves, base, IDS), expected, atol=1e-5)
    assert step._cache_size() == 1
    distinct = {np.array(step(adapter.leaves, base, IDS)).tobytes() for adapter in plain}
    assert len(distinct) == len(plain)


def test_padding_changes_shapes_only(base, family):
    for adapter in family[:2]:
        padded = adapters.pad_rank(adapter.leaves, 7)
        assert {leaf.shape[1] for name, leaf in padded.items() if name.endswith("/a")} == {7}
        again = adapters.Adapter(padded, adapter.config)
        for name, delta in change(adapter, base).items():
            np.testing.assert_allclose(change(again, base)[name], delta, atol=1e-6)
    with pytest.raises(errors.ConfigError, match="rank 1 is below that of .*key/kernel/a, 2"):
        adapters.pad_rank(family[0].leaves, 1)


def test_weighted_merge_is_the_weighted_sum_of_the_changes(base, family):
    weights = (0.5, -1.25, 2.0, 0.75)
    merged = adapters.weighted_merge(family, weights, base=base)
    changes = [change(adapter, base) for adapter in family]
    for name, delta in change(merged, base).items():
        expected = sum(w * c[name] for w, c in zip(weights, changes, strict=True))
        np.testing.assert_allclose(delta, expected, atol=2e-6 * max(1, np.abs(expected).max()))
    assert merged.config["rank"] == 2 + 5 + 6 + 4 and merged.base_fingerprint == "base"


def test_weighted_merge_of_different_targets(base, moved):
    sections = [{"name": "lora", "rank": 2, "targets": f".*{part}/kernel"} for part in ("query", "(query|fc1)")]
    family = [
        adapters.Adapter(moved(compose.build(s).init(jax.random.key(0), base), seed=i), s)
        for i, s in enumerate(sections)
    ]
    merged = change(adapters.weighted_merge(family, (1, 3), base=base), base)
    first, second = (change(adapter, base) for adapter in family)
    for name, delta in merged.items():
        np.testing.assert_allclose(delta, first[name] + 3 * second[name], atol=1e-5)


def test_what_cannot_be_merged_as_low_rank(base, family):
    section = {"name": "dora", "rank": 2}
    dora = adapters.Adapter(compose.build(section).init(jax.random.key(0), base), section, "base")
    with pytest.raises(errors.ConfigError, match="'dora' changes .* by more than low rank"):
        adapters.weighted_merge([family[0], dora], (1, 1), base=base)
    with pytest.raises(errors.ConfigError, match="2 adapters and 1 weights"):
        adapters.weighted_merge(family[:2], (1,), base=base)
    other = adapters.Adapter(family[0].leaves, family[0].config, "other")
    with pytest.raises(errors.CheckpointError, match="different bases"):
        adapters.weighted_merge([family[0], other], (1, 1), base=base)


@pytest.fixture
def saved(base, family, tmp_path):
    adapter = family[3]
    fingerprint = adapters.fingerprint(base)
    adapters.save(tmp_path, adapter.leaves, reparam_config=adapter.config, base_fingerprint=fingerprint, step=5)
    return tmp_path


def test_step_and_ramp_are_saved(saved, base, family):
    info = json.loads((saved / "adapter.json").read_text())
    assert info["u"] == 0.5 and info["step"] == 5
    loaded = adapters.load(saved, base_fingerprint=adapters.fingerprint(base))
    for name, delta in change(family[3], base).items():
        np.testing.assert_array_equal(change(loaded, base)[name], delta)
    assert sorted(path.name for path in saved.glob("[!.]*")) == ["adapter.json", "adapter.safetensors"]


def test_bfloat16_leaves_survive(tmp_path):
    leaves = {"x/kernel/a": jnp.ones((3, 2), jnp.bfloat16)}
    adapters.save(tmp_path, leaves, reparam_config={"name": "lora"}, base_fingerprint="", step=0)
    assert adapters.load(tmp_path).leaves["x/kernel/a"].dtype == jnp.bfloat16


def test_strict_names_and_shapes(saved, family):
    expected = dict(family[3].leaves)
    gone = next(iter(expected))
    del expected[gone]
    expected["new/kernel/a"] = jnp.zeros((2, 2))
    last = list(family[3].leaves)[-1]
    expected[last] = jnp.zeros((1, 4))
    with pytest.raises(errors.CheckpointError) as caught:
        adapters.load(saved, expected=expected)
    message = str(caught.value)
    assert "missing: new/kernel/a" in message and f"unexpected: {gone}" in message
    assert f"{last}: (12, 4) instead of (1, 4)" in message and "\n" not in message


def test_wrong_base(saved, base):
    other = adapters.fingerprint({**base, "embed/embedding": base["embed/embedding"].at[0, 0].add(1e-6)})
    with pytest.raises(errors.CheckpointError, match=f"trained on another base: .*instead of {other[:12]}"):
        adapters.load(saved, base_fingerprint=other)


def test_fingerprint_sees_names_shapes_and_not_the_order():
    x = np.arange(6.0)
    one = adapters.fingerprint({"a": x, "b": x})
    assert adapters.fingerprint({"b": x, "a": jnp.asarray(x, jnp.float32)}) != one  # another type
    assert adapters.fingerprint({"b": x, "a": x}) == one
    assert len({one, adapters.fingerprint({"a": x, "c": x}), adapters.fingerprint({"a": x.reshape(2, 3), "b": x})}) == 3


@pytest.mark.parametrize("damage", ["cut", "flip", "json", "key", "gone"])
def test_damaged_files(saved, damage):
    leaves, info = saved / "adapter.safetensors", saved / "adapter.json"
    data = leaves.read_bytes()
    if damage == "cut":
        leaves.write_bytes(data[:-7])
    elif damage == "flip":
        leaves.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "json":
        info.write_text(info.read_text()[:-9])
    elif damage == "key":
        info.write_text("{}")
    else:
        leaves.unlink()
    culprit = "adapter.json" if damage in ("json", "key") else "adapter.safetensors"
    with pytest.raises(errors.CheckpointError, match=culprit):
        adapters.load(saved)


def test_merge_is_float32_and_strict(base):
    section = {"name": "lora", "rank": 2, "targets": TARGETS}
    low = {name: w.astype(jnp.bfloat16) for name, w in base.items()}
    adapter = compose.build(section).init(jax.random.key(0), low)
    merged = adapters.merge(low, compose.build(section).expand(low, adapter, 0))
    assert {w.dtype.name for name, w in merged.items() if name.endswith("kernel")} == {"float32"}
    with pytest.raises(errors.CheckpointError, match="missing: embed/embedding"):
        adapters.merge(base, trees.split(base, lambda name: "embed" not in name)[0])


def test_largest_difference():
    difference = adapters.largest_difference(
        lambda x: x, lambda x: x + jnp.array([0.5, -2.0]), batches=[jnp.zeros(2)] * 2
    )
    assert difference == 2.0


def test_the_recipe_of_the_docs_holds_on_a_quantized_base(base, apply, family, tmp_path):
    """The base of a quantized run is nodes; adapters were trained on the arrays that these stand for."""
    nodes = compose.build({"name": "quantize"}).expand(base, {}, 0)
    arrays = linear.merge(nodes)
    assert adapters.fingerprint(nodes) == adapters.fingerprint(arrays) != adapters.fingerprint(base)
    about = {"base_fingerprint": adapters.fingerprint(arrays), "step": 5}
    kept = []
    for i, adapter in enumerate(family[:2]):
        adapters.save(tmp_path / str(i), adapter.leaves, reparam_config=adapter.config, **about)
        kept.append(adapters.load(tmp_path / str(i), base_fingerprint=adapters.fingerprint(nodes)))
        plain = adapters.low_rank(kept[-1], nodes, rank=8)
        expected = apply(adapter.expand(arrays), IDS)
        np.testing.assert_allclose(apply(plain.expand(nodes), IDS), expected, atol=1e-5)
    both = adapters.weighted_merge(kept, [0.7, 0.3], base=nodes)
    wanted = adapters.merge(arrays, adapters.weighted_merge(kept, [0.7, 0.3], base=arrays).expand(arrays))
    for name, w in adapters.merge(nodes, both.expand(nodes)).items():
        np.testing.assert_allclose(w if not linear.is_node(w) else linear.dense(w), wanted[name], atol=1e-6)


def test_whole_weights_are_stored_and_summed(base, family, tmp_path):
    bias = "encoder/layer_0/self_attention/query/bias"
    more = {"whole": {bias: base[bias] + 1, "embed/embedding": base["embed/embedding"] * 2}, "labels": ("no", "yes")}
    adapters.save(tmp_path, {}, reparam_config={"name": "none"}, base_fingerprint="base", step=3, **more)
    kept = adapters.load(tmp_path)
    assert kept.labels == ("no", "yes") and kept.leaves == {}
    for name, w in kept.merged(base).items():
        np.testing.assert_array_equal(w, more["whole"].get(name, base[name]))
    other = dataclasses.replace(family[0], labels=kept.labels, whole={bias: base[bias] - 1})
    again = dataclasses.replace(family[1], labels=kept.labels, whole=kept.whole)
    merged = adapters.weighted_merge([other, again], (0.25, 2.0), base=base)
    for name, delta in change(merged, base).items():
        expected = 0.25 * change(other, base)[name] + 2 * change(again, base)[name]
        np.testing.assert_allclose(delta, expected, atol=2e-6 * max(1, np.abs(expected).max()))
    with pytest.raises(errors.CheckpointError, match="different classes"):
        adapters.weighted_merge([family[0], other], (1, 1), base=base)
    new = dataclasses.replace(other, whole={"head/bias": base[bias]})
    with pytest.raises(errors.ConfigError, match="'head/bias' is new or of another shape"):
        adapters.weighted_merge([other, new], (1, 1), base=base)
