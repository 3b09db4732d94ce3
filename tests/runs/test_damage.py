"""Damage to what lwt wrote and reads again: a clear error that names the file, or a rebuild that the log mentions."""

import logging
import pathlib
import shutil
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

from lwt import errors, files
from lwt.export import bundle
from lwt.reparam import adapters, compose
from lwt.runs import checkpoint, experiment, run_config
from lwt.training import new_run, teaching, train

pytestmark = pytest.mark.usefixtures("compiled_once")
LORA = {"name": "lora", "rank": 2}


def damage(path, before, after):
    """Changes a value in a file, so that only a checksum can tell; a hidden file beside it stays as it is."""
    content = pathlib.Path(path).read_bytes()
    assert content.count(before) and len(before) == len(after)
    pathlib.Path(path).write_bytes(content.replace(before, after, 1))


@pytest.fixture(scope="module")
def run(tiny, untrained, tmp_path_factory):
    return untrained(tiny(), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def copied(run, tmp_path):
    return pathlib.Path(shutil.copytree(run.workdir, tmp_path / "run"))


@pytest.mark.parametrize(
    "name, before, after",
    [("config.json", b'"heads": 2', b'"heads": 4'), ("tokenizer.model", b"<unk>", b"<unl>")],
)
def test_a_changed_value_is_an_error_that_names_the_file(copied, name, before, after):
    damage(copied / name, before, after)
    with pytest.raises(errors.LwtError, match=f"run/{name} is damaged: its checksum differs"):
        experiment.load(copied)


def test_runs_without_checksums_still_open(run, copied):
    for path in copied.rglob(".*.sha256"):
        path.unlink()
    assert experiment.load(copied).predict(["copy: 1 2"]) == run.predict(["copy: 1 2"])


def test_an_adapter_of_another_rank(run, tmp_path):
    leaves = compose.build(LORA).init(jax.random.key(0), run.weights)
    adapters.save(tmp_path, leaves, reparam_config=LORA, base_fingerprint="print", step=1)
    damage(tmp_path / "adapter.json", b'"rank": 2', b'"rank": 3')
    with pytest.raises(errors.CheckpointError, match="adapter.json is damaged: .*checksum differs"):
        adapters.load(tmp_path)


def test_what_a_run_was_made_from(run, tmp_path):
    made = new_run.write(run, tmp_path / "made")
    assert (tmp_path / "made/.tokenizer.model.sha256").exists() and (tmp_path / "made/.origin.json.sha256").exists()
    assert made.predict(["copy: 1 2"]) == run.predict(["copy: 1 2"])


def test_damage_that_opening_does_not_read_is_found_when_it_is_copied(copied, tmp_path):
    (copied / "splits.json").write_text("{}")
    files.write_json(copied / "splits.json", {"asked": {}}, checked=True)
    damage(copied / "splits.json", b"asked", b"asker")
    opened = experiment.load(copied)
    for copy in (lambda: new_run.write(opened, tmp_path / "made"), lambda: bundle.write(opened, tmp_path / "bundle")):
        with pytest.raises(errors.LwtError, match="splits.json"):
            copy()
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("spoil", ["value", "cut", "empty", "short"])
def test_a_teachers_table_is_computed_again(spoil, tmp_path, caplog):
    caplog.set_level(logging.WARNING, logger="lwt")
    path, table = tmp_path / "teacher_0.npy", np.arange(6, dtype=np.float32).reshape(3, 2)
    teaching.keep(path, table)
    np.testing.assert_array_equal(teaching.kept(path, 3), table)
    content = path.read_bytes()
    spoilt = {"value": content[:-1] + b"\x41", "cut": content[:-3], "empty": b"", "short": content}[spoil]
    path.write_bytes(spoilt)
    assert teaching.kept(path, 4 if spoil == "short" else 3) is None
    assert f"{path} is damaged" in caplog.text and "again" in caplog.text
    assert teaching.kept(tmp_path / "none.npy", 3) is None


STATE = {"w": np.zeros(2, np.float32)}


def saved(folder, losses):
    with checkpoint.Checkpoints(folder, keep_last=len(losses)) as checkpoints:
        for step, loss in losses.items():
            checkpoints.save(step, STATE, data_state={}, metrics={"loss": loss})


@pytest.mark.parametrize("what", ["manifest", "arrays", "no manifest"])
def test_a_damaged_best_checkpoint_is_replaced_with_a_word(tmp_path, what, caplog):
    saved(tmp_path, {1: 3.0, 2: 1.0, 3: 2.0, 4: 4.0})
    if what == "arrays":
        largest = max((tmp_path / "2/state").rglob("*"), key=lambda path: path.stat().st_size * path.is_file())
        largest.write_bytes(largest.read_bytes()[:-1])
    elif what == "manifest":
        damage(tmp_path / "2/MANIFEST.json", b'"loss": 1.0', b'"loss": 9.0')
    else:
        (tmp_path / "2/MANIFEST.json").unlink()
    checkpoints = checkpoint.Checkpoints(tmp_path)
    assert checkpoints.restore("best")[2] == 3
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"{tmp_path}/2" in said and said.endswith("using step 3 instead")
    caplog.clear()
    assert checkpoint.Checkpoints(tmp_path).best_step() == (2 if what == "arrays" else 3)
    assert ("step 2 is ignored" in caplog.text) == (what != "arrays")


def test_training_says_that_a_damaged_step_is_not_kept(tmp_path, caplog):
    saved(tmp_path, {1: 1.0, 2: 2.0})
    damage(tmp_path / "1/MANIFEST.json", b'"loss": 1.0', b'"loss": 0.0')
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, STATE, data_state={}, metrics={"loss": 3.0}, wait=True)
    assert "1/MANIFEST.json: damaged (its own checksum differs); step 1 is ignored" in caplog.text
    assert checkpoint.Checkpoints(tmp_path).steps() == [2, 3]


def test_the_parts_of_a_config_have_to_be_there(copied):
    (copied / "config.json").write_text("[]")
    with pytest.raises(errors.CheckpointError, match="config.json is damaged"):
        experiment.load(copied)


LONG = "a" * 300


def test_a_name_of_300_characters_is_one_line(tiny, run, tmp_path):
    for call in (
        lambda: run_config.keep(tiny(), tmp_path / LONG),
        lambda: experiment.load(tmp_path / LONG),
        lambda: experiment.load(run.workdir, checkpoint=LONG),
        lambda: new_run.write(run, tmp_path / LONG),
        lambda: adapters.load(tmp_path / LONG),
        lambda: train.run(tiny({"init_from": str(tmp_path / LONG)}), tmp_path / "run"),
    ):
        with pytest.raises(errors.LwtError, match=LONG):
            call()


def test_a_full_disk_is_one_line_and_leaves_the_earlier_checkpoint(tmp_path):
    """The limit of a file's size stands for the disk: the error comes from the same place."""
    child = """
        import resource, signal, sys
        import numpy as np
        from lwt.machine import command_line
        from lwt.runs import checkpoint
        def main():
            with checkpoint.Checkpoints(folder) as checkpoints:
                for step, size in ((1, 1000), (2, 3_000_000)):
                    checkpoints.save(step, {"w": np.random.default_rng(0).normal(size=size)}, data_state={}, wait=True)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        folder = sys.argv.pop()
        command_line.run(main, required=[])
    """
    command = [sys.executable, "-c", textwrap.dedent(child), str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2 and found.stdout == ""
    wanted = f"error: {tmp_path}/2: not written: File too large; the same command resumes the run\n"
    assert found.stderr == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
