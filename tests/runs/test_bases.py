"""A run is opened from any folder, without the run that it started from unless it adapts it, wherever both lie."""

import os
import pathlib
import shutil

import jax
import numpy as np
import pytest

from lwt import errors, files
from lwt.export import bundle
from lwt.reparam import compose
from lwt.runs import bases, experiment, run_config
from lwt.training import new_run, train

pytestmark = pytest.mark.usefixtures("compiled_once")
LORA = {"name": "lora", "rank": 2}
PROMPTS = ["copy: 1 2 3 4", "sort ascending: 4 3 2 1"]


@pytest.fixture(scope="module")
def home(tiny, untrained, tmp_path_factory):
    """A folder with the run ``runs/base``, and ``runs/adapted`` that adapts it."""
    home = tmp_path_factory.mktemp("home")
    base = untrained(tiny(), home / "runs/base")
    leaves = compose.build(LORA).init(jax.random.key(0), base.weights)
    adapter = {name: leaf + 0.1 for name, leaf in leaves.items()}
    new_run.adapt(base, home / "runs/adapted", reparam=LORA, adapter=adapter)
    return home


@pytest.fixture(scope="module")
def weights(home):
    return experiment.load(home / "runs/adapted").weights


def record(workdir, path):
    """Records another path of the base."""
    config = files.read_json(workdir / "config.json")
    files.write_json(workdir / "config.json", config | {"init_from": str(path)}, checked=True)


def opens(workdir, weights, **options):
    found = experiment.load(workdir, **options).weights
    return all(np.array_equal(found[name], w) for name, w in weights.items())


@pytest.mark.parametrize(
    ("recorded", "moved"), [("runs/base", False), ("runs/base/", False), ("hf:models/base", False), ("gone/base", True)]
)
def test_only_a_base_elsewhere_is_announced(recorded, moved, home, weights, tmp_path, monkeypatch, caplog):
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    record(pathlib.Path("runs/adapted"), recorded)
    folder = bases.hub.folder
    monkeypatch.setattr(bases.hub, "folder", lambda name: "runs/base" if name == "hf:models/base" else folder(name))
    with caplog.at_level("INFO", logger="lwt.runs.bases"):
        assert opens("runs/adapted", weights)
    assert any(f"its base {recorded} is " in message for message in caplog.messages) == moved


@pytest.mark.parametrize("recorded", ["runs/base", "runs/base/", "../home/runs/base", "/gone/runs/base"])
def test_moved_together_and_opened_from_elsewhere(home, weights, recorded, tmp_path, monkeypatch):
    shutil.copytree(home, tmp_path / "home")
    record(tmp_path / "home/runs/adapted", recorded)
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere/deep")
    assert opens(tmp_path / "home/runs/adapted", weights)
    assert opens("../../home/runs/adapted/", weights)
    monkeypatch.chdir(tmp_path / "home/runs/adapted")
    assert opens(".", weights)


def test_a_base_in_a_sister_folder(home, weights, tmp_path):
    shutil.copytree(home / "runs/base", tmp_path / "a/base")
    shutil.copytree(home / "runs/adapted", tmp_path / "b/deep/adapted")
    record(tmp_path / "b/deep/adapted", "/old/project/a/base")
    assert opens(tmp_path / "b/deep/adapted", weights)


def test_another_run_of_that_name_is_passed_over(tiny, untrained, home, weights, tmp_path, monkeypatch):
    """A run in the current folder has the recorded path, but is not the base."""
    untrained(tiny({"model.width": 16}), tmp_path / "cwd/runs/base")
    shutil.copytree(home, tmp_path / "home")
    record(tmp_path / "home/runs/adapted", "runs/base")
    monkeypatch.chdir(tmp_path / "cwd")
    assert opens(tmp_path / "home/runs/adapted", weights)


def test_a_base_given_by_its_folder_is_checked_by_its_fingerprint(tiny, untrained, home, weights, tmp_path):
    alone = shutil.copytree(home / "runs/adapted", tmp_path / "alone/adapted")
    record(alone, "/gone/base")
    with pytest.raises(
        errors.CheckpointError, match="adapts the run /gone/base, which is neither there nor at .*--base"
    ):
        experiment.load(alone)
    assert opens(alone, weights, base=home / "runs/base")
    bundle.write(experiment.load(home / "runs/base"), tmp_path / "bundle")
    assert opens(alone, weights, base=tmp_path / "bundle")
    untrained(tiny({"seed": 1}), tmp_path / "other")
    wrong = experiment.load(tmp_path / "other")
    changed = {name: w + 1 for name, w in wrong.weights.items()}
    new_run.write(wrong, tmp_path / "changed", weights=changed)
    with pytest.raises(errors.CheckpointError, match="changed has the fingerprint .* instead of .*--base"):
        experiment.load(alone, base=tmp_path / "changed")
    with pytest.raises(errors.CheckpointError, match="nowhere is not the workdir of a run"):
        experiment.load(alone, base=tmp_path / "nowhere")


def test_a_run_that_trained_all_weights_needs_no_base(home, tmp_path):
    source = experiment.load(home / "runs/base")
    tuned = new_run.write(source, tmp_path / "tuned")
    record(tmp_path / "tuned", "/gone/base")
    assert opens(tmp_path / "tuned", tuned.weights)
    assert experiment.load(tmp_path / "tuned").predict(PROMPTS) == source.predict(PROMPTS)


def test_a_run_that_trains_a_pruned_one_needs_no_base(tiny, home, tmp_path):
    source = experiment.load(home / "runs/base")
    name = "encoder/layer_0/mlp/fc1/kernel"
    pruned = source.weights | {name: source.weights[name].at[:, :20].set(0)}
    new_run.write(source, tmp_path / "pruned", weights=pruned)
    section = {"name": "prune", "mask": "zeros", "targets": ".*fc1/kernel"}
    rate = {"optimizer.learning_rate": 0.1, "steps": 2, "reparam": section}
    train.run(tiny({"init_from": str(tmp_path / "pruned"), **rate}), tmp_path / "run")
    found = experiment.load(tmp_path / "run").weights
    assert (np.asarray(found[name]) == 0).sum() >= 20 * 32 and np.abs(found[name] - pruned[name]).max() > 0.01
    shutil.rmtree(tmp_path / "pruned")
    assert opens(tmp_path / "run", found)


def test_the_same_base_elsewhere_is_no_other_config(tiny, home, tmp_path):
    config = tiny({"init_from": str(home / "runs/base")})
    run_config.keep(config, tmp_path / "a")
    shutil.copytree(home / "runs/adapted/checkpoints", tmp_path / "a/checkpoints")
    os.symlink(home / "runs/base", tmp_path / "link")
    run_config.keep(tiny({"init_from": f"{tmp_path}/link/"}), tmp_path / "a")
    assert run_config.read(tmp_path / "a").init_from == f"{tmp_path}/link/"
    with pytest.raises(errors.ConfigError, match="holds a run with init_from="):
        run_config.keep(tiny({"init_from": str(home / "runs/adapted")}), tmp_path / "a")


def test_a_run_is_not_its_own_base(home):
    own = home / "runs/adapted"
    assert bases.candidates("elsewhere/adapted", own) == []
    assert bases.find("elsewhere/adapted", own) == "elsewhere/adapted"
    assert [pathlib.Path(path) for path in bases.candidates("/old/base/", own)] == [home / "runs/base"]
