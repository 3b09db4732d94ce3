"""The door of training: it locks the workdir, takes the weights of the base, and opens the teachers."""

import os

import numpy as np
import pytest

from lwt import errors
from lwt.runs import checkpoint, experiment
from lwt.training import lock, train


def test_a_run_starts_from_its_base_and_returns_its_figures(tiny, untrained, tmp_path):
    base = untrained(tiny(), tmp_path / "base")
    changes = {"init_from": base.workdir, "optimizer.trainable": ("base/encoder/.*",), "steps": 1}
    figures = train.run(tiny(changes), tmp_path / "run")
    assert figures["loss"] > 0 and checkpoint.of_run(tmp_path / "run").last_step() == 1
    found = experiment.load(tmp_path / "run").weights
    moved = {name for name, w in base.weights.items() if not np.array_equal(w, found[name])}
    assert moved and all(name.startswith("encoder/") for name in moved)


def test_another_process_in_the_workdir_is_refused(tiny, tmp_path):
    with lock.held(tmp_path / "run"), pytest.raises(errors.ConfigError, match="run"):
        train.run(tiny({"steps": 1}), tmp_path / "run")
    assert not os.path.exists(tmp_path / "run/config.json")


def test_teachers_are_opened_by_a_distilled_task_only(tiny, untrained, tmp_path):
    assert train.teachers_of(tiny()) == []
    teacher = untrained(tiny(), tmp_path / "teacher").workdir
    task = {"name": "distill", "task": tiny().task.to_dict(), "teacher": teacher}
    assert [opened.workdir for opened in train.teachers_of(tiny({"task": task}))] == [teacher]
    with pytest.raises(errors.LwtError, match="nowhere"):
        train.teachers_of(tiny({"task": task | {"teacher": "nowhere"}}))
