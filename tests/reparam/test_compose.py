"""Building from a config, the errors of wrong ones, and chains."""

import jax
import ml_collections
import numpy as np
import pytest

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import compose, lora, singlora


def test_build_from_a_config_dict():
    section = ml_collections.ConfigDict({"name": "lora", "rank": 4, "rank_pattern": (("enc.*", 2),)})
    assert compose.build(section) == lora.LoRA(rank=4, rank_pattern=(("enc.*", 2),))
    assert compose.build({"name": "lora", "rank_pattern": [["enc.*", 2]]}).rank_pattern == (("enc.*", 2),)
    parts = ({"name": "lora", "rank": 4}, {"name": "singlora"})
    chain = compose.build(ml_collections.ConfigDict({"name": "compose", "parts": parts}))
    assert chain.parts == (lora.LoRA(rank=4), singlora.SingLoRA())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "lorra"}, "reparam.name='lorra': did you mean 'lora'"),
        ({"name": "targets"}, "reparam.name='targets': choose from .*compose, .*lora, .*none, .*prune, .*singlora"),
        ({"rank": 4}, "reparam has no name; choose from .*compose, dora, .*lora"),
        ({"name": "lora", "rnak": 4}, "reparam.rnak: LoRA has no such argument; did you mean 'rank'"),
        ({"name": "lora", "rank": 0}, "reparam.rank is 0"),
        ({"name": "dora", "rank": -2}, "reparam.rank is -2"),
        ({"name": "singlora", "rank": 2.5}, "reparam.rank=2.5 should be of type int, like its default 16"),
        ({"name": "lora", "alpha": 0}, "reparam.alpha is 0"),
        ({"name": "lora", "dropout": 1.0}, "reparam.dropout is 1.0"),
        ({"name": "lora", "dropout": -0.1}, "reparam.dropout is -0.1"),
        ({"name": "lora", "scaling": "rslor"}, "reparam.scaling is 'rslor'; did you mean 'rslora'"),
        (
            {"name": "lora", "start": "svd"},
            "reparam.start is 'svd'; choose from corda, eva, lora, lora_ga, olora",
        ),
        ({"name": "singlora", "ramp": -1}, "reparam.ramp is -1"),
        ({"name": "lora", "rank_pattern": (("a", 0),)}, r"reparam.rank_pattern\['a'\] is 0"),
        ({"name": "lora", "alpha_pattern": 3}, "reparam.alpha_pattern=3 should be of type tuple"),
        ({"name": "quantize", "aware": "yes"}, "reparam.aware='yes' should be of type bool, like its default False"),
        ({"name": "vertical", "fused": 3}, "reparam.fused=3 should be of type str or tuple"),
        ({"name": "lora", "targets": ["query", 3]}, "reparam.targets=.* should be of type str or tuple"),
        ({"name": "lora", "targets": ["query", "("]}, r"reparam.targets '\(' is not a regular expression"),
        ({"name": "compose", "parts": "lora"}, "reparam.parts='lora' should be of type tuple"),
        ({"name": "compose"}, "reparam.parts is empty"),
        ({"name": "compose", "parts": (3,)}, r"reparam.parts\[0\] is 3; it has to be a name or a dict with a name"),
        ({"name": "compose", "parts": ({"name": "x"},)}, r"reparam.parts\[0\].name='x'"),
    ],
)
def test_wrong_configs(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        compose.build(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": "encoder/.*/quary/kernel"}, "reparam.targets 'encoder/.*/quary/kernel' matches no weight"),
        ({"targets": ".*bias"}, "reparam.targets '.*bias' matches no matrix; .*query/bias"),
        ({"targets": "("}, r"reparam.targets '\(' is not a regular expression"),
        ({"targets": ("query", "valeu")}, "reparam.targets 'valeu' matches no weight"),
        ({"targets": ("query", "uery")}, "reparam.targets 'uery' matches no weight"),
        ({"targets": ()}, r"reparam.targets \(\) matches no matrix"),
        ({"rank_pattern": (("decoder.*", 2),)}, "reparam.rank_pattern 'decoder.*' matches no weight"),
        ({"start": "pissa", "rank": 13}, "reparam.rank is 13 at .*key/kernel.*at most 12"),
    ],
)
def test_configs_that_do_not_fit_the_base(options, message, base):
    with pytest.raises(errors.ConfigError, match=message):
        compose.build({"name": "lora", **options}).init(jax.random.key(0), base)


def test_a_chain_adds_up(base, moved):
    first, second = lora.LoRA(rank=2, targets=".*query/kernel"), lora.LoRA(rank=3, alpha=6.0)
    chain = compose.Compose((first, second))
    adapter = moved(chain.init(jax.random.key(0), base))
    name = "encoder/layer_0/self_attention/query/kernel"
    a = {leaf: np.array(value) for leaf, value in adapter.items()}
    expected = np.array(base[name]) + 8 * a[f"0_lora/{name}/a"] @ a[f"0_lora/{name}/b"]
    expected += 2 * a[f"1_lora/{name}/a"] @ a[f"1_lora/{name}/b"]
    np.testing.assert_allclose(linear.dense(chain.expand(base, adapter, 0)[name]), expected, atol=1e-5)


@pytest.mark.parametrize("first", [{"name": "svd", "rank": 2}, {"name": "vertical", "rank": 2}])
def test_part_two_watches_what_part_one_gives(base, first):
    kernel = {"targets": r"encoder/layer_\d/self_attention/query/kernel"}
    second = {"name": "lora", "rank": 2, "start": "eva"}
    chain = compose.build({"name": "compose", "parts": (first | kernel, second | kernel)})
    adapter = chain.init(jax.random.key(0), base)
    kept = compose.stored(chain, base)
    watched = compose.watches(chain, kept, adapter=adapter)
    wanted = {name for name in adapter if name.startswith("1_lora/") and name.endswith("/a")}
    assert {f"1_lora/{name}/a" for _, name in watched} == wanted and len(wanted) == 2
    seen = {key: np.eye(base[key[1]].shape[0] + 1) for key in watched}
    assert compose.look(chain, adapter, base=kept, seen=seen).keys() == adapter.keys()


def test_part_two_starts_from_what_part_one_gives(base):
    chain = compose.build({"name": "compose", "parts": ({"name": "singlora", "ramp": 0}, {"name": "dora"})})
    assert not chain.identity_at_start
    adapter = chain.init(jax.random.key(0), base)
    name = "encoder/layer_0/self_attention/query/kernel"
    changed = chain.parts[0].expand(base, trees.subtree(adapter, "0_singlora"), 0)[name]
    norm = np.linalg.norm(linear.dense(changed), axis=0)
    np.testing.assert_allclose(adapter[f"1_dora/{name}/magnitude"], norm, rtol=1e-6)


def test_a_nonlinear_adapter_may_be_the_last_part(base):
    names = {"name": "compose", "parts": ({"name": "lora", "rank": 2}, {"name": "houlsby", "rank": 2})}
    reparam = compose.build(names)
    adapter = reparam.init(jax.random.key(0), base)
    assert {name.partition("/")[0] for name in adapter} == {"0_lora", "1_houlsby"}
    assert reparam.watches(base, adapter) == {}
    reparam.expand(base, adapter, 0)
