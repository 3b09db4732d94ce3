"""A wrong value is refused before anything is built, and the message names its key."""

import functools
import types

import pytest

from lwt import errors
from lwt.data import labels
from lwt.training import checks


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"steps": 0}, "steps=0 should be at least 1"),
        ({"data.rows": 0}, "data.rows=0 should be at least 1"),
        ({"optimizer.accumulate": -1}, "optimizer.accumulate=-1"),
        ({"epochs": -0.5}, "epochs=-0.5 should not be negative"),
        ({"save_every": -1}, "save_every=-1"),
        ({"profile_steps": (3, 2)}, r"profile_steps=\(3, 2\)"),
        ({"data.cut": "midle"}, "data.cut='midle': did you mean 'middle'"),
        ({"precision": "float16"}, "precision='float16'"),
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


def test_the_task_has_to_fit_the_labels():
    classes, numbers = labels.Labels(("a", "b", "c")), labels.Labels(())
    for task, kind, given, wanted in (
        ("regress", "labelled", classes, "'classify': the labels are the 3 classes a, b, c"),
        ("classify", "labelled", numbers, "'regress': the labels are numbers of texts"),
        ("classify", "images", classes, "'classify_images'"),
    ):
        with pytest.raises(errors.ConfigError, match=wanted):
            checks.check_labels(task, kind, given)
    checks.check_labels("classify", "labelled", classes)


def test_a_head_for_pairs_needs_two_texts():
    model = types.SimpleNamespace(pool="pair")
    checks.check_pool(model, ("premise", "hypothesis"))
    with pytest.raises(errors.ConfigError, match="model.pool='pair' compares two texts, and a record has 1"):
        checks.check_pool(model, ("text",))
