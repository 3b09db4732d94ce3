"""The parts of a run from its config: model, attentions, task, and which leaves are trained."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from lwt import errors, trees
from lwt.reparam import compose
from lwt.runs import assembly

TABLE = jnp.array([1.0, 2.0, 3.0])
LORA = {"reparam": {"name": "lora", "rank": 2, "start": "olora"}, "optimizer.trainable": ("adapter/.*",)}


def split(config, base=None, **options):
    model = assembly.make_model(config, 128)
    return assembly.initial_params(config, model, reparam=compose.build(config.reparam), base=base, **options)


def test_the_model_has_what_the_config_and_the_data_say(tiny):
    config = tiny({"model.attention": "kv_projection:rank=4", "precision": "bfloat16"})
    model = assembly.make_model(config, 96)
    assert (model.vocabulary, model.width, model.dtype) == (96, 32, "bfloat16")
    attention = model.attention(width=32, heads=2)
    assert type(attention).__module__ == "lwt.attention.kv_projection" and attention.rank == 4
    assert assembly.attention_names(config.model) == {"kv_projection"}


def test_a_wrapped_task_is_the_task(tiny):
    inner = tiny().task.to_dict()
    section = ml_collections.ConfigDict({"name": "distill", "task": inner, "teacher": "runs/x"})
    assert assembly.task_section(section).to_dict() == inner
    with pytest.raises(errors.ConfigError, match="task.task is missing"):
        assembly.task_section(ml_collections.ConfigDict({"name": "distill"}))


def test_fresh_weights_follow_from_the_seed(tiny):
    (one, frozen), (again, _), (other, _) = split(tiny()), split(tiny()), split(tiny({"seed": 1}))
    assert frozen == {} and trees.differences(one, other) == ""
    for name, w in one.items():
        np.testing.assert_array_equal(w, again[name])
    assert any(not np.array_equal(w, other[name]) for name, w in one.items())


class Constants(nn.Module):
    """A model whose weights start as constants: an array, one of NumPy, a number and zeros."""

    @nn.compact
    def __call__(self, x):
        for name, start in {"array": TABLE, "numpy": np.arange(3.0, dtype="f"), "number": 2.0}.items():
            x = x + self.param(name, lambda key, start=start: start)
        return x + self.param("zeros", nn.initializers.zeros_init(), (3,))

    def example(self):
        return jnp.zeros(3)


def test_every_call_gives_new_weights():
    first, second = (assembly.init_weights(Constants(), jax.random.key(0)) for _ in range(2))
    for leaf in first.values():
        leaf.delete()
    np.testing.assert_array_equal(TABLE, [1, 2, 3])
    expected = {"array": TABLE, "numpy": np.arange(3.0), "number": 2.0, "zeros": np.zeros(3)}
    jax.tree.map(np.testing.assert_array_equal, second, expected)


def test_constant_leaves_and_the_base_are_frozen(tiny):
    trainable, frozen = split(tiny(LORA))
    assert {name.rpartition("/")[2] for name in trainable} == {"a", "b"}
    assert {name.rpartition("/")[2] for name in frozen if name.startswith("adapter/")} == {"a0", "b0"}
    assert any(name.startswith("base/") for name in frozen)


def test_rules_that_match_nothing_are_refused(tiny):
    with pytest.raises(errors.ConfigError, match="optimizer.trainable"):
        split(tiny({"optimizer.trainable": ("base/encodr/.*",)}))
    with pytest.raises(errors.ConfigError, match="optimizer.trainable is empty"):
        split(tiny({"optimizer.trainable": ()}))


def test_skipped_weights_of_a_base_are_fresh(tiny):
    config = tiny({"seed": 3, "init_from": "runs/x", "init_skip": ("decoder/.*",)})
    base = trees.subtree(split(tiny())[0], "base")
    fresh = trees.subtree(split(tiny({"seed": 3}))[0], "base")
    for name, w in trees.subtree(split(config, base)[0], "base").items():
        np.testing.assert_array_equal(w, (fresh if name.startswith("decoder/") else base)[name], err_msg=name)
    narrow = {name: w[..., :5] for name, w in base.items()}
    with pytest.raises(errors.CheckpointError, match="init_from=runs/x holds another model"):
        split(tiny({"init_from": "runs/x"}), narrow)


def test_trained_weights_take_the_place_of_fresh_ones(tiny, monkeypatch):
    config, base = tiny({"init_from": "runs/x", "init_skip": ("decoder/.*",)}), trees.subtree(split(tiny())[0], "base")
    trained = {name: w + 1 for name, w in base.items() if name.startswith("decoder/")}
    monkeypatch.setattr(
        assembly, "init_weights", lambda *_, **options: pytest.fail("drew weights") if options else base
    )
    for name, w in trees.subtree(split(config, base, trained=trained)[0], "base").items():
        np.testing.assert_array_equal(w, trained.get(name, base[name]), err_msg=name)


def test_expanding_gives_the_model_its_weights(tiny):
    config = tiny(LORA)
    trainable, frozen = split(config)
    weights = assembly.expand(compose.build(config.reparam), {**trainable, **frozen}, step=0)
    shapes = jax.eval_shape(lambda: assembly.init_weights(assembly.make_model(config, 128), jax.random.key(0)))
    assert trees.differences(shapes, weights) == ""


def test_models_of_equal_configs_are_equal(tiny):
    one, same, other = (assembly.make_model(tiny({"model.attention": f"local:window={n}"}), 128) for n in (4, 4, 5))
    assert one == same and hash(one) == hash(same) and one != other


def test_what_is_made_once_is_made_again_for_other_arguments_and_for_those_without_a_hash():
    made = assembly.once(lambda *args: [*args])
    assert made(1, "a") is made(1, "a") and made(1, "a") == [1, "a"] and made(2, "a") == [2, "a"]
    assert made({"a": 1}) == made({"a": 1}) and made({"a": 1}) is not made({"a": 1})


def test_a_model_of_own_sizes_has_fresh_weights(tiny):
    config = tiny()
    with config.unlocked():
        config.model.sizes = {"encoder/layer_0/mlp": 5}
    model = assembly.make_model(config, 128)
    weights = assembly.init_weights(model, jax.random.key(0))
    assert weights["encoder/layer_0/mlp/fc1/kernel"].shape == (32, 5)
