"""The optimizer: schedules by hand-computed values, groups and clipping against optimizers put together by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs import embbert_pretrain
from lwt import errors, trees
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
        (dict(name="cosine", warmup=20), {0: 0.0, 10: 0.5, 20: 1.0, 60: 0.5, 40: 0.8535534, 100: 0.0}),
        (dict(name="cosine", end=0.1), {0: 1.0, 50: 0.55, 100: 0.1}),
    ],
)
def test_schedules(schedule, values):
    for factor in (1.0, 0.5):
        rate = optim.schedule(schedule, factor, steps=100)
        for step, value in values.items():
            assert float(jax.jit(rate)(jnp.int32(step))) == pytest.approx(factor * value, rel=1e-5, abs=1e-9)


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


def test_lora_plus_multiplies_the_update_itself(section):
    params = flat(0)
    steps = []
    for rules in (((".*", 1.0),), ((".*/b", 16.0), (".*", 1.0))):
        optimizer, _ = optim.build(section(rate_rules=rules), params, steps=1)
        steps.append(optimizer.update(flat(1), optimizer.init(params), params)[0])
    ratios = {name: np.asarray(steps[1][name] / steps[0][name]) for name in NAMES}
    assert {name: round(float(ratio.mean()), 3) for name, ratio in ratios.items()} == {
        name: 16.0 if name.endswith("/b") else 1.0 for name in NAMES
    }


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
    optimizer, _ = optim.build(section(**rules), params, steps=1)
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
        (dict(name="chain"), ("optimizer.name='chain'",)),
        (dict(name="sgd", weight_decay=0.1, arguments={}), ("optimizer.weight_decay=0.1", "adamw")),
        (dict(arguments=dict(beta=0.9)), ("optimizer.arguments", "beta")),
        (dict(schedule=dict(name="cosin")), ("optimizer.schedule.name='cosin'", "'cosine'")),
        (dict(schedule=dict(name="noam", warmup=4000)), ("optimizer.schedule (noam)", "width")),
        (dict(schedule=dict(name="rsqrt", warmup=0)), ("optimizer.schedule", "'warmup': 0")),
        (dict(schedule=dict(name="constant", warmup=-1)), ("optimizer.schedule", "'warmup': -1")),
        (dict(learning_rate=0.0), ("optimizer.learning_rate=0.0",)),
        (dict(learning_rate=float("nan")), ("optimizer.learning_rate=nan",)),
        (dict(rate_rules=((".*/a", 1.0),)), ("optimizer.rate_rules", "adapter/query/b")),
        (dict(rate_rules=(("(", 1.0),)), ("optimizer.rate_rules", "'('", "regular expression")),
    ],
)
def test_what_is_unknown_or_out_of_range_is_named(section, changes, parts):
    with pytest.raises(errors.ConfigError) as caught:
        optim.build(section(**changes), flat(0), steps=10)
    assert all(part in str(caught.value) for part in parts), caught.value
