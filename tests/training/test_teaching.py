"""A run that learns from another: trained, gone on with, and used without its teacher."""

import json
import shutil
import types

import flax.linen as nn
import jax
import numpy as np
import pytest

from configs import common
from lwt import errors, trees
from lwt.runs import checkpoint, experiment
from lwt.tasks import classify_images
from lwt.training import build, teaching, train


@pytest.fixture
def teacher(tiny, tmp_path):
    train.run(tiny({"steps": 2}), tmp_path / "teacher")
    return tmp_path / "teacher"


def student(tiny, teacher, **changes):
    task = {"name": "translate", "metrics": ("exact_match",)}
    lesson = {"name": "distill", "task": task, "teacher": str(teacher), "hidden": 1.0}
    more = {"data.tokenizer.path": f"{teacher}/tokenizer.model", "model.width": 16, "task": lesson}
    return tiny(more | changes)


def test_a_run_and_its_end_without_the_teacher(tiny, teacher, tmp_path, rows):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train.run(student(tiny, teacher), whole)
    train.run(student(tiny, teacher, steps=2), parts)
    train.run(student(tiny, teacher), parts)
    found, again = experiment.load(whole, checkpoint="last"), experiment.load(parts, checkpoint="last")
    jax.tree.map(np.testing.assert_array_equal, found.weights, again.weights)
    assert rows(whole) == rows(parts)[:2] + rows(parts)[3:]  # but for the evaluation where it was stopped
    trained = [row for row in rows(whole) if "train/loss" in row]
    assert all(row["train/soft_loss"] > 0 for row in trained) and len(trained) == 6
    assert trained[-1]["train/layer_loss"] < trained[0]["train/layer_loss"]

    kept = trees.subtree(checkpoint.Checkpoints(f"{whole}/checkpoints").restore("last")[0], "trainable")
    learned = {name: leaf.shape for name, leaf in kept.items() if not name.startswith("base/")}
    names = ("projection/encoder/layer_0/kernel", "projection/decoder/layer_0/kernel")
    assert learned == dict.fromkeys(names, (16, 32))

    shutil.rmtree(teacher)
    found = experiment.load(whole, checkpoint="last")
    figures = found.evaluate()[0]
    assert figures["loss"] > 0 and "soft_loss" not in figures
    assert found.config.task.name == common.of_run(whole).task.name == "translate"
    assert json.loads((whole / "config.json").read_text())["task"]["name"] == "distill"


def test_several_answer_as_their_mean():
    models = nn.Dense(3), nn.Dense(3, use_bias=False)
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("f4")
    kernels = np.random.default_rng(1).normal(size=(2, 4, 3)).astype("f4")
    leaves = {"teacher/0/kernel": kernels[0], "teacher/0/bias": np.ones(3, "f4"), "teacher/1/kernel": kernels[1]}
    asked = teaching.Teacher(models, leaves, "print").apply(leaves | {"base/kernel": kernels[1]})
    np.testing.assert_allclose(asked(x), (x @ kernels[0] + 1 + x @ kernels[1]) / 2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("damaged", [False, True])
def test_an_unfinished_table_is_resumed(damaged, tmp_path, monkeypatch):
    """No batch of a whole part is asked again, unless its file is damaged."""

    class Evaluator:
        def __init__(self, *given):
            del given

        def predictions(self, weights, batches, *, count, found):
            found = np.zeros(count, "f4") if found is None else found
            for batch in batches:
                if batch == stop:
                    raise KeyboardInterrupt
                asked.append(batch)
                found[batch] = batch + weights
            return found

    class Examples(list):
        fingerprint = "a"

    records = types.SimpleNamespace(examples=Examples(range(5)))
    data = types.SimpleNamespace(training_set=lambda reader: records, batches=lambda records, *, share: range(5))
    teacher = types.SimpleNamespace(workdir="large", task=None, model=None, data=data)
    monkeypatch.setattr(teaching.evaluation, "Evaluator", Evaluator)
    monkeypatch.setattr(teaching, "EVERY", 2)
    given = dict(weights=10, fingerprint="b", workdir=str(tmp_path), mesh=None)
    asked, stop = [], 3
    with pytest.raises(KeyboardInterrupt):
        teaching._outputs(teacher, data, **given)
    [part] = tmp_path.glob("teacher_*.part")
    if damaged:
        part.write_bytes(part.read_bytes()[:-1])
    asked, stop = [], None
    assert teaching._outputs(teacher, data, **given).tolist() == [10, 11, 12, 13, 14]
    assert asked == ([0, 1, 2, 3, 4] if damaged else [2, 3, 4]) and not [*tmp_path.glob("*.part")]
    asked = []
    assert teaching._outputs(teacher, data, **given).tolist() == [10, 11, 12, 13, 14] and not asked


def test_a_teacher_that_does_not_fit(tiny, teacher, tmp_path):
    train.run(student(tiny, teacher, steps=2), tmp_path / "run")
    shutil.rmtree(teacher)
    train.run(tiny({"steps": 2, "seed": 1}), teacher)
    with pytest.raises(errors.CheckpointError, match="written with another teacher"):
        train.run(student(tiny, teacher), tmp_path / "run")
    with pytest.raises(
        errors.ConfigError, match="teacher has another tokenizer.*data.tokenizer.path=.*tokenizer.model"
    ):
        other = student(tiny, teacher, **{"data.tokenizer.path": "", "data.tokenizer.vocabulary": 64})
        train.run(other, tmp_path / "other")
    with pytest.raises(errors.ConfigError, match="task.teacher=images reads images, which the run's data are not"):
        images = types.SimpleNamespace(workdir="images", tokenizer=None, labels=())
        teaching.make([images], experiment.load(teacher).data, workdir=tmp_path, mesh=None, cache=True)
    tasks = [classify_images.ClassifyImages(mean=mean, std=(0.5,)) for mean in ((0.5,), (0.4, 0.4, 0.4))]
    other = types.SimpleNamespace(workdir="vit", task=tasks[0], config=tiny({"data.packed": False}))
    with pytest.raises(errors.ConfigError, match=r"task.teacher=vit has the task.mean \(0.5,\) of pixels, this run"):
        objective = types.SimpleNamespace(task=tasks[1])
        build.make_teacher(
            tiny({"data.packed": False}), objective, teachers=[other], data=None, workdir=tmp_path, mesh=None
        )
    both = student(tiny, teacher)
    with both.unlocked(), both.task.ignore_type():
        both.task.teacher = (str(teacher),) * 2
    with pytest.raises(errors.ConfigError, match="task.teacher names 2 runs; .* where a record has one output"):
        train.run(both, tmp_path / "two")
    with pytest.raises(errors.CheckpointError, match="nowhere is not the workdir of a run"):
        lost = student(tiny, teacher, **{"task.teacher": f"{tmp_path}/nowhere"})
        train.run(lost, tmp_path / "lost")
