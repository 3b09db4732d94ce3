"""A run that was stopped, however, and started again is the run that never stopped, bit for bit."""

import json
import pathlib
import re
import signal

import numpy as np
import pytest

from lwt import errors
from lwt.runs import checkpoint, experiment, run_config
from lwt.training import train

# Runs train.py, and sends it a signal at a moment: ("stepping", 6) is when it is about to take its sixth step.
STOPPED = """
import os, random, runpy, sys, threading, time
from lwt.runs import checkpoint
from lwt.training import loop

moment, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def end():
    if moment == "some time after row":
        time.sleep(random.uniform(0, 0.3))
    os.kill(os.getpid(), number)

def at(place, name):
    before = getattr(place, name)
    def call(*args, **options):
        global count
        count -= 1
        if count == 0:
            threading.Thread(target=end).start() if moment == "some time after row" else end()
        return before(*args, **options)
    setattr(place, name, call)

at(*{
    "stepping": (loop.devices, "put_rows"),
    "saving": (checkpoint.manifest, "describe"),
    "sealing": (checkpoint.manifest, "_digest"),
    "pruning": (checkpoint.Checkpoints, "_prune"),
    "some time after row": (loop, "write_training"),
}[moment])
sys.argv = sys.argv[4:]
runpy.run_path("train.py", run_name="__main__")
"""
# Runs such programs in forks of one process that has imported lwt; prints how each ended, and its last checkpoint.
SEVERAL = """
import json, sys
from lwt.runs import checkpoint
from tests.campaign import programs

programs.preload()
found = []
for arguments in json.loads(sys.argv[1]):
    outcome = programs.run(*arguments)
    workdir = arguments[-1].removeprefix("--workdir=")
    found.append([outcome.code, outcome.out, outcome.err, checkpoint.of_run(workdir).last_step() or 0])
print(json.dumps(found))
"""
KILLS = (("sealing", 3), ("pruning", 2), ("saving", 2), ("some time after row", 1))
LORA = {
    "reparam": {"name": "lora", "rank": 4, "dropout": 0.1},
    "optimizer.trainable": ("adapter/.*",),
    "steps": 14,
    "log_every": 3,
    "save_every": 2,
    "eval_every": 5,
}


@pytest.fixture
def stopped(start, config_file, tmp_path):
    """``stopped(config, calls)`` trains a config, for each ``(moment, count, signal, workdir)`` of the calls.

    It gives ``(exit code, standard output, standard error, last step)`` of each.
    """

    def stopped(config, calls):
        program = tmp_path / "stopped.py"
        program.write_text(STOPPED)
        flags = ["train.py", f"--config={config_file(config)}"]
        given = [[str(program), *map(str, call), *flags, f"--workdir={workdir}"] for *call, workdir in calls]
        said, complaints = start("-c", SEVERAL, json.dumps(given)).communicate(timeout=500)
        assert said, complaints
        return json.loads(said.splitlines()[-1])

    return stopped


def everything(workdir):
    """All arrays of the last checkpoint, and the position in the data."""
    state, data_state, step = checkpoint.Checkpoints(pathlib.Path(workdir) / "checkpoints").restore()
    return {name: np.asarray(leaf) for name, leaf in state.items()}, data_state, step


def assert_same(found, expected, rows):
    (state, data_state, step), (state_, data_state_, step_) = everything(found), everything(expected)
    assert step == step_ and data_state == data_state_ and list(state) == list(state_)
    assert all(np.array_equal(state[name], state_[name]) for name in state)
    assert rows(found) == rows(expected)


def test_killed_again_and_again(tiny, stopped, rows, tmp_path):
    """An adapter, with dropout in the model and in LoRA, killed at four moments: three around a save, one at random."""
    train.run(tiny({"steps": 2}), f"{tmp_path}/base")
    config = tiny({**LORA, "init_from": f"{tmp_path}/base"})
    train.run(config, f"{tmp_path}/whole")
    ends = stopped(config, [(*kill, int(signal.SIGKILL), tmp_path / "killed") for kill in KILLS])
    for (moment, _), (code, *said, _) in zip(KILLS, ends, strict=True):
        assert code == -signal.SIGKILL or moment == "some time after row", said
    reached = [last for *_, last in ends]
    assert reached == sorted(reached) and 0 < reached[1] < reached[2] < 14, reached
    train.run(config, f"{tmp_path}/killed")
    assert_same(tmp_path / "killed", tmp_path / "whole", rows)
    adapters = [(tmp_path / name / "adapter/adapter.safetensors").read_bytes() for name in ("killed", "whole")]
    assert adapters[0] == adapters[1]


def test_a_signal_saves_and_loses_no_step(tiny, stopped, rows, tmp_path):
    changes = {"steps": 12, "log_every": 4, "save_every": 100, "eval_every": 100}
    train.run(tiny(changes), tmp_path / "whole")
    numbers = (signal.SIGTERM, signal.SIGINT)
    ends = stopped(tiny(changes), [("stepping", 6, int(number), tmp_path / number.name) for number in numbers])
    for name, (code, said, complaints, _) in zip((number.name for number in numbers), ends, strict=True):
        assert code == 0 and "Traceback" not in complaints, complaints
        step = int(re.search(rf"{name}: saved step (\d+)", said)[1])
        assert step == 6 == everything(tmp_path / name)[2]
        assert [row["step"] for row in rows(tmp_path / name)] == [4]
        train.run(tiny(changes), tmp_path / name)
        assert_same(tmp_path / name, tmp_path / "whole", rows)


def test_another_config_is_refused_and_another_cadence_is_not(tiny, tmp_path):
    config = tiny({"steps": 1})
    train.run(config, tmp_path)
    for key, value in (("optimizer.learning_rate", 1e-2), ("seed", 1), ("data.rows", 8), ("model.dropout", 0.0)):
        with pytest.raises(errors.ConfigError, match=rf"holds a run with {re.escape(key)}=.*, not {value}"):
            run_config.keep(tiny({"steps": 1, key: value}), tmp_path)
    run_config.keep(tiny({"steps": 9, "log_every": 2, "select": "accuracy"}), tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["steps"] == 9


@pytest.mark.parametrize("rate, cadence", [(1e30, "save_every"), (1e10, "save_every"), (1e10, "log_every")])
def test_not_finite_stops_with_step_and_leaf(tiny, tmp_path, rate, cadence):
    """The last checkpoint is good: at 1e30 there is none, at 1e10 that of the steps before."""
    quiet = {"log_every": 100, "eval_every": 100, "save_every": 100}
    config = tiny({**quiet, cadence: 1, "steps": 50, "optimizer.learning_rate": rate})
    with pytest.raises(errors.NotFinite) as caught:
        train.run(config, tmp_path)
    step, leaf, end = re.fullmatch(
        r"step (\d+): (?:update|loss or gradient) not finite, first in (base/[\w/]+).*; (.*); "
        r"lower optimizer.learning_rate .*",
        str(caught.value),
    ).groups()
    assert leaf.startswith(("base/embed", "base/encoder", "base/decoder"))
    if rate == 1e30 or cadence == "log_every":
        assert end == "there is no checkpoint yet" and (rate < 1e30 or step == "1")
        run_config.keep(tiny({"optimizer.learning_rate": 1e-3}), tmp_path)  # may be tried again
    else:
        state, _, last = everything(tmp_path)
        assert end == f"the last good checkpoint is step {last}" and last == int(step) - 1 >= 1
        assert all(np.isfinite(leaf).all() for leaf in state.values())


@pytest.mark.parametrize("method", ["periodic_lora", "adalora"])
def test_what_a_method_does_after_a_step_resumes(method, tiny, untrained, tmp_path):
    """Stopped in the middle of a stage; what `advance` sets has no moments, and is in the artefact."""
    untrained(tiny(), tmp_path / "base")
    more = {"periodic_lora": {"period": 2}, "adalora": {"budget": 1, "begin": 1, "end": 4, "every": 1}}[method]
    section = {"name": method, "rank": 2, **more}
    changes = {**LORA, "reparam": section, "init_from": f"{tmp_path}/base", "log_every": 1}
    train.run(tiny({**changes, "steps": 5}), tmp_path / "whole")
    for steps in (3, 5):
        train.run(tiny({**changes, "steps": steps}), tmp_path / "parts")
    (state, _, _), (again, _, _) = everything(tmp_path / "whole"), everything(tmp_path / "parts")
    assert list(state) == list(again) and all(np.array_equal(state[name], leaf) for name, leaf in again.items())
    where = {"periodic_lora": "trainable/adapter/.*/sum", "adalora": "memory/.*/mean"}[method]
    set_by_it = {name for name in state if re.search("/(sum|mean)$", name)}
    assert set_by_it and all(re.fullmatch(where, name) and state[name].any() for name in set_by_it)
    adapter = experiment.load(tmp_path / "whole/adapter", base=tmp_path / "base")
    for name, w in experiment.load(tmp_path / "whole").weights.items():
        np.testing.assert_array_equal(adapter.weights[name], w)
    with pytest.raises(errors.ConfigError, match=rf"optimizer.ema=0.5 should be 0: {method} changes"):
        train.run(tiny({**changes, "optimizer.ema": 0.5}), tmp_path / "averaged")
