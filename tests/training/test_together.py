"""Adapters trained together are those that each task's own run trains, and open like any other."""

import json
import math
import socket

import jax
import numpy as np
import pytest

import lwt
from lwt import errors
from lwt.inspect import comparison
from lwt.reparam import adapters
from lwt.runs import checkpoint, experiment
from lwt.training import together, train
from tests.runs import test_adapter_folder

TASKS = ("season", "size")  # of three and of four classes
STEPS = 3


@pytest.fixture(scope="module")
def home(untrained, tmp_path_factory):
    """``home/base``; ``home/season`` and ``home/size``, trained alone; and ``home/both``, trained together."""
    home = tmp_path_factory.mktemp("home")
    untrained(test_adapter_folder.config_of(home, "base"), home / "base")
    for name in TASKS:
        train.run(adapted(test_adapter_folder.config_of(home, name), home), home / name)
    train.run(both_tasks(home), home / "both")
    return home


def adapted(config, home):
    """Changes a config to train LoRA and the head, with a clip, and with SGD, whose updates are the gradients."""
    with config.unlocked():
        config.init_from, config.init_checkpoint, config.init_skip = str(home / "base"), "last", ("head/.*",)
        config.reparam = {"name": "lora", "rank": 2}
        config.optimizer.name, config.optimizer.arguments, config.optimizer.weight_decay = "sgd", {}, 0.0
        config.optimizer.schedule = {"name": "constant"}
    config.optimizer.trainable = ("adapter/.*", "base/head/.*")
    config.optimizer.learning_rate, config.optimizer.clip_norm, config.optimizer.ema = 0.5, 0.3, 0.5
    config.steps, config.log_every, config.eval_every, config.save_every = STEPS, 1, 1, 1
    return config


def both_tasks(home, **changes):
    """The config of both tasks."""
    config = adapted(experiment.load(home / "base").config, home)
    with config.unlocked():
        config.data.train = ""
        config.tasks = {name: {"train": f"folder:{home}/{name}-texts"} for name in TASKS}
        for key, value in changes.items():
            config[key] = value
    return config


def last(folder):
    """The state of the last checkpoint."""
    return checkpoint.of_run(folder).restore("last")[0]


@pytest.mark.parametrize("i", range(len(TASKS)))
def test_every_adapter_is_that_of_its_own_run(home, i):
    alone, both = last(home / TASKS[i]), last(home / "both")
    moved = 0.0
    for name, leaf in alone.items():
        if name.startswith(("trainable/", "average/")):
            own = both[name][i][tuple(slice(size) for size in leaf.shape)]
            np.testing.assert_allclose(own, leaf, rtol=0, atol=1e-6, err_msg=name)
            moved += abs(both[name][i] - both[name][1 - i]).sum() if "adapter/" in name else 0.0
    assert moved > 0.1  # the tasks differ


def test_two_processes_give_the_adapters_of_one(home, config_file, start):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [f"--config={config_file(both_tasks(home))}", f"--workdir={home}/two", "--processes=2"]
    pair = [start("train.py", *arguments, f"--coordinator=127.0.0.1:{port}", f"--process={i}") for i in range(2)]
    said = [process.communicate(timeout=300) for process in pair]
    assert [process.returncode for process in pair] == [0, 0], said
    one, two = last(home / "both"), last(home / "two")
    for name in one:
        if name.startswith("trainable/"):
            np.testing.assert_allclose(two[name], one[name], rtol=0, atol=1e-5, err_msg=name)


def test_runs_of_several_tasks_are_compared(home):
    both, one = comparison.facts(home / "both"), comparison.facts(home / "season")
    alone = one.trained + comparison.facts(home / "size").trained
    assert both.trained == alone and both.parameters == one.parameters - one.trained + alone
    assert both.step in (1, 2, 3) and np.isfinite(both.best)


def test_every_adapter_opens_like_any_other(home):
    base = lwt.load(home / "base", adapters={name: home / "both" / name for name in TASKS})
    texts = ["the warm year 3", "a bold and old one"]
    answers = base.predict(texts, adapters=TASKS)
    for name, text, answer in zip(TASKS, texts, answers, strict=True):
        run = lwt.load(home / "both" / name / "adapter", base=base)
        assert run.labels == test_adapter_folder.CLASSES[name] and run.predict([text]) == [answer]
        kernel = run.weights["head/classifier/kernel"]
        assert kernel.shape[-1] == len(run.labels) and not np.allclose(kernel, 0)
        assert run.step == checkpoint.of_run(home / "both").best_step()
        assert adapters.load(home / "both" / name / "adapter").labels == run.labels


def test_the_log_has_every_task(home):
    rows = [json.loads(line) for line in (home / "both/metrics.jsonl").read_text().splitlines()]
    figure = both_tasks(home).select
    own = [row for row in rows if f"validation/{figure}/season" in row]
    assert len(own) == STEPS
    for row in own:
        mean = (row[f"validation/{figure}/season"] + row[f"validation/{figure}/size"]) / 2
        assert row[f"validation/{figure}"] == pytest.approx(mean, abs=1e-6)
    losses = [
        [json.loads(line).get("train/loss") for line in (home / name / "metrics.jsonl").read_text().splitlines()]
        for name in (*TASKS, "both")
    ]
    alone, other, mixed = ([x for x in found if x] for found in losses)
    np.testing.assert_allclose(mixed, (np.array(alone) + other) / 2, rtol=1e-5)


def test_it_resumes_where_it_was(home, tmp_path):
    config = both_tasks(home)
    config.steps = 2
    train.run(config, tmp_path / "both")
    config.steps = STEPS
    train.run(config, tmp_path / "both")
    jax.tree.map(np.testing.assert_array_equal, last(tmp_path / "both"), last(home / "both"))


def test_an_epoch_is_that_of_the_largest_task(home, tmp_path):
    config = both_tasks(home, epochs=2.0, eval_every=0)
    with config.unlocked():
        config.tasks.size.max_train_records = 8
    found = together.in_steps({task: together.config_of(config, task) for task in TASKS}, tmp_path)
    records = len(experiment.load(home / "season").data.splits.train)
    batches = records / config.data.rows
    assert records > 8 and {(own.steps, own.eval_every) for own in found.values()} == {
        (round(2 * batches), math.ceil(batches))
    }


def test_translators(untrained, tiny, tmp_path):
    """Of packed rows, of which each holds pairs of one task."""
    untrained(tiny(), tmp_path / "base")
    lora = {"name": "lora", "rank": 2, "targets": ".*query/kernel"}
    changes = {"init_from": str(tmp_path / "base"), "init_checkpoint": "last", "reparam": lora, "steps": 2}
    changes |= {"optimizer.name": "sgd", "optimizer.arguments": {}, "optimizer.trainable": ("adapter/.*",)}
    sets = {task: f"generated:arithmetic,size=100,tasks={task}" for task in ("add_1", "sort_ascending")}
    tasks = {task: {"train": name, "validation": f"{name}@validation"} for task, name in sets.items()}
    train.run(tiny(changes | {"tasks": tasks, "data.train": ""}), tmp_path / "both")
    alone = {f"data.{key}": value for key, value in tasks["add_1"].items()}
    train.run(tiny(changes | alone), tmp_path / "alone")
    both, alone = (last(tmp_path / name) for name in ("both", "alone"))
    for name in (name for name in alone if name.startswith("trainable/")):
        np.testing.assert_allclose(both[name][0], alone[name], rtol=0, atol=1e-6, err_msg=name)
    folders = {task: tmp_path / "both" / task for task in tasks}
    answers = lwt.load(tmp_path / "base", adapters=folders).predict(["add 1: 2 3", "3 2"], adapters=list(tasks))
    assert len(answers) == 2


def test_what_cannot_be_trained_both_tasks(home, tmp_path):
    for changes, message in (
        ({"init_from": "", "init_skip": ()}, "init_from is empty"),
        ({"task": {"name": "classify", "label_smoothing": 0.1}}, "label_smoothing needs tasks with as many classes"),
        ({"task": {"name": "classify", "class_weights": "balanced"}}, "class_weights differs from task to task"),
        ({"tasks": {"season": {"train": "folder:x", "lable": "y"}}}, "tasks.season.lable: did you mean 'label'"),
        ({"tasks": {"a/b": {"train": "folder:x"}}}, "tasks=.* should be a section {task:"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            train.run(both_tasks(home, **changes), tmp_path / "run")
    with pytest.raises(errors.ConfigError, match="an adapter for each of season, size; open .*/TASK/adapter"):
        lwt.load(home / "both")
