"""The run of a config: what is trained, frozen and converted into steps."""

import jax
import numpy as np
import pytest

from lwt import errors
from lwt.reparam import adapters
from lwt.runs import assembly, experiment
from lwt.training import build

LORA = {"reparam": {"name": "lora", "rank": 2}, "optimizer.trainable": ("adapter/.*",)}


@pytest.fixture(scope="module")
def base(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("runs") / "base")


def test_an_adapter_run_trains_the_adapter_alone(tiny, base, tmp_path):
    config = tiny(LORA | {"init_from": base.workdir})
    run = build.build(config, str(tmp_path / "run"), base=base.weights)
    state = run.init()
    assert set(run.leaves) == set(state.trainable) and all(name.startswith("adapter/") for name in run.leaves)
    assert set(run.frozen) == {f"base/{name}" for name in base.weights}
    for name, w in base.weights.items():
        np.testing.assert_array_equal(run.frozen[f"base/{name}"], w)
    assert run.identity["base"] == adapters.fingerprint(base.weights)
    assert (tmp_path / "run/config.json").exists() and run.save_adapter is not None


def test_a_step_of_the_built_run_moves_every_trained_leaf(tiny, base, tmp_path):
    run = build.build(tiny(LORA | {"init_from": base.workdir}), str(tmp_path), base=base.weights)
    state = run.init()
    before = {name: np.array(leaf) for name, leaf in state.trainable.items()}
    state = run.step(state, run.frozen, jax.device_put(next(run.batches), run.row_sharding))
    changed = {name for name, leaf in state.trainable.items() if not np.array_equal(leaf, before[name])}
    assert changed == {name for name in run.leaves if name.endswith("/b")}  # b is zero, so a has no gradient yet
    assert int(state.step) == 1 and float(state.sums["steps"]) == 1


def test_runs_that_differ_in_their_rate_share_the_compiled_step(tiny, base, tmp_path):
    texts, moved = {}, {}
    for rate in (1e-3, 2e-3):
        config = tiny(LORA | {"init_from": base.workdir, "optimizer.learning_rate": rate})
        run = build.build(config, str(tmp_path / f"rate{rate}"), base=base.weights)
        state, batch = run.init(), jax.device_put(next(run.batches), run.row_sharding)
        texts[rate] = run.step.func.lower(state, run.frozen, batch, **run.step.keywords).as_text()
        before = {name: np.array(leaf) for name, leaf in state.trainable.items()}
        after = run.step(state, run.frozen, batch).trainable
        moved[rate] = max(abs(np.asarray(after[name]) - before[name]).max() for name in before)
    assert texts[1e-3] == texts[2e-3]
    assert moved[2e-3] == pytest.approx(2 * moved[1e-3], rel=1e-5)


def test_whole_runs_write_no_adapter_and_say_what_data_they_take(tiny, tmp_path):
    run = build.build(tiny(), str(tmp_path))
    taken = "generated:arithmetic,size={}@{}".format
    wanted = f"train: {taken(200, 'train')}; validation: {taken(8, 'validation')}; test: {taken(8, 'test')}"
    assert any(wanted in line for line in run.header)
    assert run.save_adapter is None and run.frozen == {}
    assert all(name.startswith("base/") for name in run.leaves) and run.identity["base"] == ""


def test_epochs_become_steps(tiny, tmp_path):
    config = tiny({"epochs": 2.0, "eval_every": 0, "save_every": 0})
    batches = assembly.make_data(config, str(tmp_path)).training()
    epoch, converted = batches.measure()["batches"], build.in_steps(config, batches)
    assert converted.steps == round(2 * epoch)
    assert converted.eval_every == converted.save_every == int(np.ceil(epoch))
    assert build.in_steps(tiny(), batches).steps == tiny().steps


def test_an_adapter_of_random_weights_is_refused(tiny, tmp_path, caplog):
    with pytest.raises(errors.ConfigError, match="init_from='': optimizer.trainable=.*adapter of random weights"):
        build.build(tiny(LORA), str(tmp_path / "adapter"))
    build.build(tiny({"optimizer.trainable": ("base/encoder/.*",)}), str(tmp_path / "part"))
    assert "frozen weights stay random" in caplog.text


def test_rows_have_to_divide_among_the_devices(tiny):
    assert build.make_mesh(tiny()).size == jax.device_count()
    with pytest.raises(errors.ConfigError, match="mesh"):
        build.make_mesh(tiny({"mesh": {"data": 7}}))


def test_the_loss_in_evaluation_has_no_randomness(tiny, base):
    config = tiny()
    loss = jax.jit(build.make_loss(base.model, base.task, reparam=base._reparam, train=False))
    trainable = {f"base/{name}": w for name, w in base.weights.items()}
    batch = jax.device_put(next(assembly.make_data(config, base.workdir, make=False).training()))
    values = [float(loss(trainable, {}, batch, 0, jax.random.key(seed))[0]) for seed in (0, 1)]
    assert values[0] == values[1] > 0


def test_a_base_of_other_shapes_is_refused(tiny, base, tmp_path):
    config = tiny({"init_from": base.workdir, "model.hidden": 48})
    with pytest.raises(errors.CheckpointError, match="init_from=.*holds another model: .*fc1"):
        build.build(config, str(tmp_path), base=experiment.arrays_of(base.workdir, "best"))
