"""The optimizer: schedules by hand-computed values, groups and clipping against optimizers put together by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs import common, embbert_pretrain, lightweight, lora_ranks
from lwt import errors, trees
from lwt.reparam import dora, lora, singlora
from lwt.runs import assembly
from lwt.training import optim

NAMES = ("adapter/query/a", "adapter/query/b", "base/mlp/bias", "base/mlp/kernel", "base/norm/scale")
SHAPES = ((3, 2), (2, 3), (4,), (4, 4), (4,))


def flat(seed):
    generator = np.random.default_rng(seed)
    return {n: jnp.asarray(generator.normal(size=s), jnp.float32) for n, s in zip(NAMES, SHAPES)}


@pytest.fixture
def section(tiny):
    return lambda **changes: tiny({f"optimizer.{key}": value for key, value in changes.items()}).optimizer


def moved(optimizer, params, *, steps=3):
    """The parameters after some steps with made-up gradients."""
    state = optimizer.init(params)
    for seed in range(steps):
        updates, state = optimizer.update({n: 10 * g for n, g in flat(seed + 1).items() if n in params}, state, params)
        params = optax.apply_updates(params, updates)
    return params


def assert_close(found, expected):
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    "schedule, values",  # {steps done: rate}, of 100 steps
    [
        # d^-0.5 · min(t^-0.5, t · 4000^-1.5), t = steps done + 1
        (dict(name="noam", width=128, warmup=4000), {3999: 1.3975425e-3, 0: 3.4938562e-7, 15999: 6.9877124e-4}),
        (dict(name="constant"), {0: 1.0, 99: 1.0}),
        (dict(name="constant", warmup=4), {0: 0.25, 1: 0.5, 3: 1.0, 99: 1.0}),
        (dict(name="rsqrt", warmup=4), {0: 0.25, 3: 1.0, 15: 0.5, 99: 0.2}),
        (dict(name="cosine", warmup=20), {0: 0.05, 9: 0.5, 19: 1.0, 59: 0.5, 39: 0.8535534, 99: 0.0}),
        (dict(name="cosine", end=0.1), {0: 1.0, 33: 0.775, 99: 0.1, 200: 0.1}),
    ],
)
def test_schedules(schedule, values):
    for factor in (1.0, 0.5):
        rate = optim.schedule(schedule, factor, steps=100)
        for step, value in values.items():
            assert float(jax.jit(rate)(jnp.int32(step))) == pytest.approx(factor * value, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    "warmup, epochs, steps, wanted", [(100, 3.0, 61, 6), (100, 3.0, 101, 100), (100, 0.0, 61, 100), (9, 1.0, 9, 0)]
)
def test_a_warm_up_that_outlasts_the_epochs_is_shortened(tiny, caplog, warmup, epochs, steps, wanted):
    config = tiny({"optimizer.schedule": {"name": "cosine", "warmup": warmup}, "steps": steps, "epochs": epochs})
    with config.unlocked():
        optim.shorten_warmup(config)
    assert config.optimizer.schedule.warmup == wanted
    assert (f"warmup={warmup} outlasts the {steps} steps" in caplog.text) == (wanted != warmup)


def test_the_papers_peak(tiny):
    rate = optim.schedule(dict(name="noam", width=128, warmup=4000), 0.5, steps=1)
    rates = [float(rate(step)) for step in range(3990, 4010)]
    assert max(rates) == rates[9] == pytest.approx(6.988e-4, rel=1e-4), "at step 4000, the 4000th"


def test_each_leaf_moves_with_the_rate_and_decay_of_its_first_matching_rules(section):
    rules = dict(
        rate_rules=((".*/b", 16.0), ("base/norm/.*", 0.0), (".*", 1.0)),
        decay_rules=((r".*/(bias|scale)", 0.0), (".*", 1.0)),
        arguments=dict(b1=0.9, b2=0.98),
        weight_decay=0.1,
    )
    params = flat(0)
    found = moved(optim.build(section(**rules), params, steps=3)[0], params)
    for name in NAMES:
        rate = {"adapter/query/b": 16e-3, "base/norm/scale": 0.0}.get(name, 1e-3)
        decay = 0.0 if name.endswith(("bias", "scale")) else 0.1
        alone = {name: params[name]}
        assert_close({name: found[name]}, moved(optax.adamw(rate, b1=0.9, b2=0.98, weight_decay=decay), alone))


BASE = {"query/kernel": (4, 4), "query/bias": (4,), "embed/embedding": (6, 4), "norm/scale": (4,)}


def adapted(reparam):
    """``(trainable, frozen)`` of a small base whose adapter is trained."""
    base = {name: jnp.ones(shape) for name, shape in BASE.items()}
    adapter = reparam.init(jax.random.key(0), base)
    constant = {name for name, label in reparam.labels(adapter).items() if label == "constant"}
    trainable = {f"adapter/{name}": w for name, w in adapter.items() if name not in constant}
    frozen = trees.with_prefix(base, "base") | {f"adapter/{name}": adapter[name] for name in constant}
    return trainable, frozen


def step_sizes(section, reparam):
    """The mean size of Adam's first step of each leaf, in learning rates, and the names of the leaves with state."""
    trainable, frozen = adapted(reparam)
    whole = trainable | frozen
    optimizer, rate = optim.build(section, trainable, steps=100, frozen=frozen, reparam=reparam)
    state = optimizer.init(whole)
    updates, _ = optimizer.update(jax.tree.map(jnp.ones_like, whole), state, whole)
    moments = {path[-1].key for path, leaf in jax.tree.leaves_with_path(state) if leaf.ndim}
    return {name: float(jnp.abs(u).mean() / rate(0)) for name, u in updates.items()}, moments


@pytest.mark.parametrize("start", ["lora", "pissa"])
def test_step_sizes_of_lora_plus(section, start):
    reparam = dora.DoRA(rank=2, start=start, targets=".*(query/kernel|embedding)")
    sizes, moments = step_sizes(section(lora_plus=16.0, arguments={}), reparam)
    expected = {
        "adapter/query/kernel/a": 1.0,
        "adapter/query/kernel/b": 16.0,
        "adapter/query/kernel/magnitude": 16.0,
        "adapter/embed/embedding/a": 0.08,  # of a table a is the matrix that starts at zero
        "adapter/embed/embedding/b": 0.005,
        "adapter/embed/embedding/magnitude": 16.0,
    }
    assert sizes == pytest.approx(dict.fromkeys(sizes, 0.0) | expected, rel=1e-4)
    assert len(sizes) > len(expected) and moments == set(expected), "frozen leaves have no state"


@pytest.mark.parametrize("rules, decays", [((), False), (((".*/magnitude", 0.5),), True)])
def test_magnitudes_do_not_decay_unless_a_rule_names_them(section, rules, decays):
    reparam = dora.DoRA(rank=2, targets=".*query/kernel")
    trainable, frozen = adapted(reparam)
    given = section(weight_decay=0.1, decay_rules=(*rules, (".*", 1.0)))
    optimizer, _ = optim.build(given, trainable, steps=1, frozen=frozen, reparam=reparam)
    still = jax.tree.map(jnp.zeros_like, trainable)
    updates, _ = optimizer.update(still, optimizer.init(trainable), trainable)
    assert jnp.any(updates["adapter/query/kernel/magnitude"] != 0) == decays
    assert jnp.all(updates["adapter/query/kernel/a"] != 0), "matrices decay"


def test_lora_plus_is_plain_lora_without_a_ratio_and_of_ratio_one(section):
    reparam = lora.LoRA(rank=2, targets=".*query/kernel")
    for ratio in (0.0, 1.0):
        sizes, moments = step_sizes(section(lora_plus=ratio, arguments={}), reparam)
        assert [sizes[name] for name in moments] == pytest.approx([1.0, 1.0], rel=1e-4)


def test_rate_rules_multiply_the_factor_of_lora_plus(section):
    rules = ((".*embedding/b", 2.0), (".*", 0.5))
    reparam = lora.LoRA(rank=2, targets=".*(kernel|embedding)")
    sizes, _ = step_sizes(section(lora_plus=4.0, rate_rules=rules, arguments={}), reparam)
    found = [sizes[f"adapter/{name}"] for name in ("query/kernel/a", "query/kernel/b", "embed/embedding/b")]
    assert found == pytest.approx([0.5, 2.0, 0.01], rel=1e-4)


def test_the_configs_of_lora_plus_give_these_rates(tmp_path):
    experiment = lora_ranks.get_config("method=lora")
    (tmp_path / "config.json").write_text(experiment.to_json())
    reparam = lora.LoRA(rank=2, targets=".*(query/kernel|embedding)")
    configs = lora_ranks.get_config("method=lora_plus"), lightweight.get_config(f"base={tmp_path},method=lora_plus")
    for config in configs:
        trainable, frozen = adapted(reparam)
        found, factors = optim.labels(config.optimizer, trainable, frozen=frozen, reparam=reparam)
        rates = {leaf: factors[found[leaf]][0] for leaf in trainable}
        assert sorted(rates.values()) == pytest.approx([0.005, 0.08, 1.0, 16.0])
        assert {found[leaf] for leaf in frozen} == {optim.FROZEN}


def test_a_run_from_a_run_of_lora_plus_has_plain_rates(tmp_path):
    (tmp_path / "config.json").write_text(lora_ranks.get_config("method=lora_plus").to_json())
    config = common.of_run(tmp_path)
    assert config.optimizer.lora_plus == 0 and config.optimizer.clip_norm == 1.0


@pytest.mark.parametrize(
    "changes, reparam, parts",
    [
        (dict(lora_plus=16.0), None, ("optimizer.lora_plus=16.0", "no trainable leaf is the matrix b")),
        (dict(lora_plus=16.0), singlora.SingLoRA(rank=2, targets="query/kernel"), ("optimizer.lora_plus=16.0",)),
        (dict(rate_rules=((".*", 2.0), (".*/b", 1.0))), None, ("optimizer.rate_rules '.*/b' has no effect",)),
        (dict(decay_rules=((".*/b", 2.0), (".*query/b", 1.0), (".*", 1.0))), None, ("'.*query/b' has no effect",)),
        (dict(rate_rules=((".*/c", 2.0), (".*", 1.0))), None, ("optimizer.rate_rules '.*/c' matches no weight",)),
        (dict(decay_rules=((".*/c", 0.0), (".*", 1.0))), None, ("optimizer.decay_rules '.*/c' matches no weight",)),
    ],
)
def test_rules_without_effect_are_refused(section, changes, reparam, parts):
    trainable, frozen = adapted(reparam) if reparam else (flat(0), {})
    with pytest.raises(errors.ConfigError) as caught:
        optim.build(section(**changes), trainable, steps=1, frozen=frozen, reparam=reparam)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_a_rule_may_match_frozen_leaves_only(section):
    reparam = lora.LoRA(rank=2, targets="query/kernel")
    trainable, frozen = adapted(reparam)
    rules = (("base/norm/.*", 2.0), (".*", 1.0))
    found, factors = optim.labels(section(rate_rules=rules), trainable, frozen=frozen)
    assert {found[leaf] for leaf in frozen} == {optim.FROZEN} and {rate for rate, _ in factors.values()} == {1.0}


def test_accepted_optimizers_are_the_suggested_ones(section):
    assert {"adam", "adamw", "adamw_8bit", "nadamw", "sgd", "lion", "adafactor"} <= set(optim.names())
    assert not {"polyak_sgd", "lbfgs", "sm3", "scale_by_learning_rate", "apply_updates"} & set(optim.names())
    for name in optim.names():
        optimizer, _ = optim.build(
            section(name=name, arguments=dict(key=0) if name == "noisy_sgd" else {}), flat(0), steps=1
        )
        assert moved(optimizer, flat(0), steps=1).keys() == flat(0).keys(), name
    with pytest.raises(errors.ConfigError) as caught:
        optim.build(section(name="polyak_sgd"), flat(0), steps=1)
    assert "polyak_sgd'?" not in str(caught.value)


def test_default_rules_decay_no_bias_and_no_norm(section):
    params = flat(0)
    optimizer, _ = optim.build(section(weight_decay=0.5), params, steps=1)
    still = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(still, optimizer.init(params), params)
    assert {name for name in NAMES if jnp.any(updates[name] != 0)} == {
        n for n in NAMES if "bias" not in n and "scale" not in n
    }
    np.testing.assert_allclose(updates["base/mlp/kernel"], -1e-3 * 0.5 * params["base/mlp/kernel"], rtol=1e-6)


@pytest.mark.parametrize("model", ["embbert", "mamba_2mb", "embedder_conv", "bert_2mb"])
def test_default_rules_decay_kernels_and_tables_of_text_encoders(model):
    config = embbert_pretrain.get_config(f"model={model}")
    made = assembly.make_model(config, 64)
    shapes = trees.flatten(jax.eval_shape(lambda: made.init(jax.random.key(0), made.example())["params"]))
    rules = config.optimizer.decay_rules
    decayed = {name for name in shapes if trees.first_match(f"base/{name}", rules)}
    assert decayed == {
        name for name in shapes if name.endswith("/kernel") or name in ("embed/token", "embed/segment")
    }, decayed


def test_the_clip_comes_before_the_groups_and_sees_the_trainable_leaves_only(section):
    """With SGD the update shows the clipped gradient: one norm over all trained leaves, then the leaf's own rate."""
    params = {name: leaf for name, leaf in flat(0).items() if name.startswith("adapter")}
    rules = dict(name="sgd", arguments={}, clip_norm=0.5, rate_rules=((".*/b", 16.0), (".*", 1.0)))
    optimizer, _ = optim.build(section(**rules), params, steps=1, frozen=flat(0).keys() - params.keys())
    gradient = {name: flat(1)[name] for name in params}
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in gradient.values()))
    assert norm > 0.5
    for name, rate in (("adapter/query/a", 1e-3), ("adapter/query/b", 16e-3)):
        np.testing.assert_allclose(updates[name], -rate * gradient[name] * 0.5 / norm, rtol=1e-5)


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "lion", "adafactor", "lamb", "rmsprop"])
def test_optimizers_of_optax_by_name(section, name):
    params = flat(0)
    optimizer, _ = optim.build(section(name=name, arguments={}), params, steps=3)
    assert_close(moved(optimizer, params), moved(getattr(optax, name)(1e-3, **DECAYS.get(name, {})), params))


DECAYS = {"adamw": dict(weight_decay=0.0), "lion": dict(weight_decay=0.0), "lamb": dict(weight_decay=0.0)}


@pytest.mark.parametrize(
    "changes, parts",
    [
        (dict(name="adamm"), ("optimizer.name='adamm'", "'adam'")),
        (dict(name="polyak_sgd"), ("optimizer.name='polyak_sgd'",)),
        (dict(name="chain"), ("optimizer.name='chain'",)),
        (dict(name="sgd", weight_decay=0.1, arguments={}), ("optimizer.weight_decay=0.1", "adamw")),
        (dict(arguments=dict(beta=0.9)), ("optimizer.arguments", "beta")),
        (dict(schedule=dict(name="cosin")), ("optimizer.schedule.name='cosin'", "'cosine'")),
        (dict(schedule=dict(name="noam", warmup=4000)), ("optimizer.schedule (noam)", "width")),
        (dict(schedule=dict(name="rsqrt", warmup=0)), ("optimizer.schedule.warmup=0", "at least 1")),
        (dict(schedule=dict(name="constant", warmup=-1)), ("optimizer.schedule.warmup=-1",)),
        (dict(schedule=dict(name="constant", warmup=float("nan"))), ("optimizer.schedule.warmup=nan", "an integer")),
        (dict(schedule=dict(name="cosine", end=-0.1)), ("optimizer.schedule.end=-0.1",)),
        (dict(arguments=dict(b1=2.0)), ("optimizer.arguments.b1=2.0", "below 1")),
        (dict(arguments=dict(eps=-1)), ("optimizer.arguments.eps=-1",)),
        (dict(arguments=dict(b2=float("nan"))), ("optimizer.arguments.b2=nan",)),
        (dict(arguments=dict(weight_decay=0.1)), ("optimizer.arguments.weight_decay=0.1", "optimizer.weight_decay")),
        (dict(arguments=dict(nesterov="yes")), ("optimizer.arguments.nesterov='yes'",)),
        (dict(arguments=dict(mu_dtype="float23")), ("optimizer.arguments.mu_dtype='float23'",)),
        (dict(name="lbfgs", arguments={}), ("optimizer.name='lbfgs' needs more than gradients",)),
        (dict(rate_rules=((".*/a", 1.0),)), ("optimizer.rate_rules", "adapter/query/b")),
        (dict(rate_rules=(("(", 1.0),)), ("optimizer.rate_rules", "'('", "regular expression")),
    ],
)
def test_what_is_unknown_or_out_of_range_is_named(section, changes, parts):
    with pytest.raises(errors.ConfigError) as caught:
        optim.build(section(**changes), flat(0), steps=10)
    assert all(part in str(caught.value) for part in parts), caught.value
