"""A wrong value is refused before anything is built, and the message names its key."""

import functools
import types

import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.data import labels
from lwt.runs import checkpoint, run_config
from lwt.tasks import similarity
from lwt.training import checks


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"steps": 0}, "steps=0 should be from 1 to 2147483647"),
        ({"data.rows": 0}, "data.rows=0 should be from 1 to"),
        ({"optimizer.accumulate": -1}, "optimizer.accumulate=-1"),
        ({"epochs": -0.5}, "epochs=-0.5 should be positive or 0"),
        ({"data.leak_free": True}, "data.leak_free=True has no effect: .* not labelled or compared or images"),
        ({"data.image_size": 32}, "data.image_size=32 has no effect"),
        ({"init_skip": ("head/.*",)}, "init_skip=.* has no effect, since init_from is empty"),
        ({"data.fields": ("source",)}, r"data.fields=\('source',\) should be two names"),
        ({"save_every": -1}, "save_every=-1"),
        ({"profile_steps": (3, 2)}, r"profile_steps=\(3, 2\)"),
        ({"data.rows": 16, "optimizer.accumulate": 3}, "data.rows=16 is not divisible by optimizer.accumulate=3"),
    ],
)
def test_a_wrong_value_is_named(tiny, changes, words):
    with pytest.raises(errors.ConfigError, match=words):
        checks.check(tiny(changes))


def test_right_values_pass(tiny):
    checks.check(tiny())
    checks.check(tiny({"epochs": 0.5, "profile_steps": (1, 2), "optimizer.accumulate": 4, "precision": "bfloat16"}))


TEXTS, IMAGES, PAIRS = {"ids", "segments"}, {"image"}, {"source", "inputs"}


@pytest.mark.parametrize(
    "kind, task, read, head, words",
    [
        ("pairs", "translate", TEXTS, "classify", "model.name='seq2seq' reads ids, segments, and the batches of"),
        ("labelled", "classify", IMAGES, None, "model.name='seq2seq' reads image, and the batches of"),
        ("labelled", "translate", TEXTS, "classify", "task.name='translate' does not fit data.kind='labelled'; choose"),
        ("images", "classify", IMAGES, None, "'images'; choose from classify_images"),
        ("labelled", "classify", TEXTS, "none", "task.name='classify' needs model.head='classify', not 'none'"),
        ("labelled", "regress", TEXTS, "pretrain", "task.name='regress' needs model.head='classify', not 'pretrain'"),
        ("masked", "masked_lm", TEXTS, "classify", "needs model.head='pretrain', not 'classify'"),
        ("pairs", "translate", PAIRS, None, ""),
        ("images", "classify_images", IMAGES, None, ""),
        ("labelled", "classify", TEXTS, "classify", ""),
    ],
)
def test_data_task_and_model_have_to_fit_each_other(tiny, kind, task, read, head, words):
    given = {"pairs": PAIRS, "labelled": TEXTS, "masked": TEXTS, "images": IMAGES}[kind]
    check = functools.partial(checks.check_kind, tiny({"data.kind": kind, "task": {"name": task}}))
    if not words:
        return check(given=given, read=read, head=head)
    with pytest.raises(errors.ConfigError, match=words):
        check(given=given, read=read, head=head)


@pytest.mark.parametrize(
    "name, words",
    [
        ("foo", "data.test=foo: data 'foo': expected KIND:NAME"),
        ("folder:nowhere", "data.test=folder:nowhere: "),
        ("folder:notebooks", "data.test=folder:notebooks: .* no split 'test'"),
        ("generated:foo", "data.test=generated:foo: no generated data set 'foo'"),
        ("generated:arithmetic,size=0", "data.test=generated:arithmetic,size=0: .*size must be"),
        ("generated:arithmetic@tset", "data.test=generated:arithmetic@tset: .*'tset'; did you mean 'test'"),
    ],
)
def test_a_source_that_is_read_later_exists(name, words):
    with pytest.raises(errors.ConfigError, match=words):
        checks.check_source(name, split="test", key="data.test")
    for right in ("", "generated:arithmetic", "generated:arithmetic,size=8@test+generated:arithmetic@train"):
        checks.check_source(right, split="test", key="data.test")


@pytest.fixture
def begun(tiny, tmp_path):
    """``begun(changes) -> config`` of a run that has done 8 of 10 steps."""
    config = tiny({"steps": 10, "optimizer.schedule": {"name": "cosine", "warmup": 2}})
    run_config.keep(config, tmp_path)
    with checkpoint.of_run(tmp_path) as checkpoints:
        checkpoints.save(8, {"w": jnp.zeros(1)}, data_state={}, wait=True)
    return lambda changes: tiny({"optimizer.schedule": {"name": "cosine", "warmup": 2}} | changes)


def test_a_resumed_run_keeps_the_length_of_its_schedule(begun, tmp_path, caplog):
    checks.check_length(begun({"steps": 10}), tmp_path)
    for changes in ({"steps": 20}, {"steps": 9}, {"epochs": 2.0}):
        with pytest.raises(
            errors.ConfigError, match="the cosine schedule .* is one for steps=10; .*--stretch_schedule"
        ):
            checks.check_length(begun(changes), tmp_path)
    assert not caplog.records
    checks.check_length(begun({"steps": 20}), tmp_path, stretch=True)
    assert "it is stretched from step 8 on" in caplog.text
    checks.check_length(begun({"steps": 20, "optimizer.schedule": {"name": "constant"}}), tmp_path)
    checks.check_length(begun({"steps": 20}), tmp_path / "new")


def test_a_resumed_run_has_at_least_the_steps_that_are_done(begun, tmp_path):
    for stretch in (False, True):
        with pytest.raises(errors.ConfigError, match="steps=3: .* holds a run of 8 steps"):
            checks.check_length(begun({"steps": 3}), tmp_path, stretch=stretch)


def test_the_task_has_to_fit_the_labels():
    classes, numbers, several = labels.Labels(("a", "b", "c")), labels.Labels(()), labels.Labels(("a", "b"), "|")
    for task, kind, given, wanted in (
        ("regress", "labelled", classes, "'classify' or 'ordinal': the labels are the 3 classes a, b, c of texts"),
        ("multilabel", "labelled", classes, "for several labels per text, set data.label_separator"),
        ("classify", "labelled", several, "'multilabel': the labels are several of a, b, with '|' between"),
        ("classify", "labelled", numbers, "'regress': the labels are numbers of texts"),
        ("classify", "images", classes, "'classify_images'"),
    ):
        with pytest.raises(errors.ConfigError, match=wanted):
            checks.check_labels(task, given, kind=kind)
    checks.check_labels("classify", classes, kind="labelled")


def test_ordinal_classes_need_an_order():
    def data(*names, declared=()):
        return types.SimpleNamespace(labels=labels.Labels(names), declared_classes=declared)

    checks.check_order(data("1", "2.5"))
    checks.check_order(data("low", "high", declared=("low", "high")))
    with pytest.raises(errors.ConfigError, match="the classes high, low have no order; .*labels.txt"):
        checks.check_order(data("high", "low"))


def test_a_head_for_pairs_needs_two_texts():
    model = types.SimpleNamespace(pool="pair")
    checks.check_pool(model, ("premise", "hypothesis"))
    with pytest.raises(errors.ConfigError, match="model.pool='pair' compares two texts, and a record has 1"):
        checks.check_pool(model, ("text",))


def test_labels_of_a_similarity_lie_on_its_scale():
    checks.check_scale(similarity.Similarity(high=5.0), np.array([0.0, 2.5, 5.0]))
    checks.check_scale(similarity.Similarity(), np.array([-1.0, 1.0]))  # a cosine can be negative
    with pytest.raises(errors.ConfigError, match="task.low=0, task.high=1: the labels go from 0 to 5; give both ends"):
        checks.check_scale(similarity.Similarity(), np.array([0.0, 5.0]))


def test_a_warm_up_that_was_shortened_belongs_to_its_length(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(checks.checkpoint, "of_run", lambda workdir: types.SimpleNamespace(last_step=lambda: 5))
    schedule = {"optimizer.schedule.name": "constant", "optimizer.schedule.warmup": 100}
    before = tiny({"epochs": 1.0, **schedule})
    monkeypatch.setattr(checks.run_config, "kept", lambda workdir: before)
    checks.check_length(before, tmp_path)
    with pytest.raises(errors.ConfigError, match="the constant schedule .* is one for epochs=1.0"):
        checks.check_length(tiny({"epochs": 3.0, **schedule}), tmp_path)


def test_layers_that_run_in_a_loop_cannot_be_compared():
    checks.check_distillation({"hidden": 1.0}, {"scan": False, "remat": "none"})
    checks.check_distillation({}, {"scan": True})
    for model in ({"scan": True}, {"remat": "blocks"}):
        with pytest.raises(errors.ConfigError, match="task.hidden and task.attention compare layers as they run"):
            checks.check_distillation({"hidden": 1.0}, model)
