"""The door of training: it locks the workdir, takes the weights of the base, and opens the teachers."""

import subprocess
import sys

import numpy as np
import pytest

from lwt import errors
from lwt.runs import checkpoint, experiment
from lwt.training import train

HOLD = """\
import sys

import filelock

with filelock.FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_starts_from_its_base_and_returns_its_figures(tiny, untrained, tmp_path):
    base = untrained(tiny(), tmp_path / "base")
    changes = {"init_from": base.workdir, "optimizer.trainable": ("base/encoder/.*",), "steps": 1}
    figures = train.run(tiny(changes), tmp_path / "run")
    assert figures["loss"] > 0 and checkpoint.of_run(tmp_path / "run").last_step() == 1
    found = experiment.load(tmp_path / "run").weights
    moved = {name for name, w in base.weights.items() if not np.array_equal(w, found[name])}
    assert moved and all(name.startswith("encoder/") for name in moved)


def test_teachers_are_opened_by_a_distilled_task_only(tiny, untrained, tmp_path):
    assert train.teachers_of(tiny()) == []
    teacher = untrained(tiny(), tmp_path / "teacher").workdir
    task = {"name": "distill", "task": tiny().task.to_dict(), "teacher": teacher}
    assert [opened.workdir for opened in train.teachers_of(tiny({"task": task}))] == [teacher]
    with pytest.raises(errors.LwtError, match="nowhere"):
        train.teachers_of(tiny({"task": task | {"teacher": "nowhere"}}))


def test_a_second_process_is_kept_out_until_the_first_ends(tiny, tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / train.LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(errors.ConfigError, match="another process is training there"):
            train.run(tiny({"steps": 1}), str(tmp_path))
        assert not (tmp_path / "config.json").exists()
        other.kill()
    with train.locked(str(tmp_path)):
        pass


def test_a_folder_that_cannot_be_written_is_left_to_others_to_refuse(tiny, tmp_path):
    (tmp_path / "file").touch()
    with train.locked(str(tmp_path / "file")), pytest.raises(errors.ConfigError, match="cannot be written"):
        train.run(tiny({"steps": 1}), str(tmp_path / "file"))
