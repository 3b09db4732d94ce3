"""Runs of one process share their compiled functions exactly when they would compile the same."""

import jax
import numpy as np
import pytest

from lwt.training import build, programs, train

LORA = {"reparam": {"name": "lora", "rank": 2}, "optimizer.trainable": ("adapter/.*",)}


@pytest.fixture(scope="module")
def base(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("runs") / "base")


def step_of(config, folder, base):
    return build.build(config, str(folder), base=base.weights).step.func


def test_seeds_rates_and_cadences_take_over_the_step(tiny, base, tmp_path):
    config = LORA | {"init_from": base.workdir}
    first = step_of(tiny(config), tmp_path / "first", base)
    assert step_of(tiny(config | {"seed": 5, "optimizer.learning_rate": 0.5}), tmp_path / "second", base) is first
    often = {"log_every": 2, "eval_every": 3, "save_every": 6, "keep_last": 5, "patience": 7, "select_mode": "max"}
    assert step_of(tiny(config | often), tmp_path / "third", base) is first


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 77},
        {"optimizer.clip_norm": 0.25},
        {"reparam": {"name": "lora", "rank": 3}},
        {"reparam": {"name": "lora", "rank": 2, "scaling": "one"}},
        {"precision": "bfloat16"},
    ],
)
def test_whatever_changes_the_step_makes_a_new_one(tiny, base, tmp_path, change):
    config = LORA | {"init_from": base.workdir}
    first = step_of(tiny(config), tmp_path / "first", base)
    assert step_of(tiny(config | change), tmp_path / "second", base) is not first


def test_other_seeds_train_as_if_they_had_compiled_their_own_step(tiny, base, tmp_path):
    config = tiny(LORA | {"init_from": base.workdir, "seed": 3, "steps": 4})
    states = []
    for name, keep in (("shared", True), ("alone", False)):
        if keep:
            build.build(
                tiny(LORA | {"init_from": base.workdir, "steps": 4}), str(tmp_path / "other"), base=base.weights
            )
        else:
            programs.forget()
        run = build.build(config, str(tmp_path / name), base=base.weights)
        state = run.init()
        for _ in range(2):
            state = run.step(state, run.frozen, jax.device_put(next(run.batches), run.row_sharding))
        states.append(jax.device_get(state.trainable))
    for name, leaf in states[0].items():
        np.testing.assert_array_equal(leaf, states[1][name])


def test_a_student_holds_its_teacher_and_shares_nothing(tiny, base, tmp_path):
    config = tiny({"task": {"name": "distill", "task": {"name": "translate"}, "teacher": (base.workdir,)}})
    teachers = train.teachers_of(config)
    steps = [build.build(config, str(tmp_path / name), teachers=teachers).step.func for name in ("first", "second")]
    assert steps[0] is not steps[1]


def test_the_oldest_programs_are_forgotten():
    programs.forget()
    made = [programs.shared(f"key {i}", lambda i=i: i) for i in range(programs.KEPT + 1)]
    assert made == list(range(programs.KEPT + 1))
    assert programs.shared("key 1", lambda: "new") == 1
    assert programs.shared("key 0", lambda: "new") == "new"
    programs.forget()
