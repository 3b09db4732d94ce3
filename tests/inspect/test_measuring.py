"""Quality, bytes and time of runs that are trained here."""

import json
import os

import pytest

from lwt import errors, trees
from lwt.compress import factorise
from lwt.export import quantize
from lwt.inspect import measuring
from lwt.machine import latency
from lwt.runs import experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """A trained run, its factors as a run, its integers as a file, and a run that broke off."""
    root = tmp_path_factory.mktemp("runs")
    train.run(tiny({"steps": 2}), str(root / "mt-seed0"))
    opened = experiment.load(root / "mt-seed0")
    quantize.export(opened, root / "mt-seed0/export/int8.safetensors")
    factorise.factorise(opened, str(root / "mt-r2"), rank=2)
    path = root / "broken/config.json"
    path.parent.mkdir()
    os.symlink(root / "mt-seed0/checkpoints", root / "broken/checkpoints")
    kept = json.loads((root / "mt-seed0/config.json").read_text())
    path.write_text(json.dumps({**kept, "steps": 5}))
    return root


def test_runs_become_points(runs, monkeypatch, caplog):
    caplog.set_level("INFO", logger="lwt")
    found = {p.name: (p, opened) for p, opened in measuring.collect(measuring.find([f"{runs}/**"]))}
    assert set(found) == {"mt", "mt, int8", "mt-r2"}
    assert "broken stopped after step 2 of 5" in caplog.text
    plain, files, factors = (found[name][0] for name in ("mt", "mt, int8", "mt-r2"))
    assert plain.bytes == 4 * trees.count(found["mt"][1].weights)
    assert files.bytes == (runs / "mt-seed0/export/int8.safetensors").stat().st_size < 0.5 * plain.bytes
    assert factors.bytes == trees.nbytes(found["mt-r2"][1].weights) < plain.bytes
    assert (plain.made, factors.made) == ("seq2seq", "seq2seq, factorise")
    assert {(p.task, p.metric) for p, _ in found.values()} == {("generated:arithmetic,size=8@test", "exact_match")}

    monkeypatch.setattr(latency, "ALONE", 2)
    points = measuring.measure(list(found.values()), rounds=1)
    assert all(p.milliseconds > 0 and p.rate > 0 for p in points)


def test_kept_figures_are_of_this_model(runs, tmp_path):
    opened = experiment.load(runs / "mt-seed0")
    opened.workdir = str(tmp_path)
    file, path = tmp_path / "int8.safetensors", tmp_path / "eval/any.json"
    path.parent.mkdir()
    file.touch()
    right = {"data": opened.test, "checkpoint": 2, "decoding": "greedy", "exact_match": 0.5}
    path.write_text(json.dumps(right))
    assert measuring.kept(opened) == right and measuring.quality(opened) == ("exact_match", False, 0.5)
    assert measuring.kept(opened, str(file)) is None  # these are the run's own
    for wrong in ({"checkpoint": 1}, {"data": "other"}, {"decoding": "beams"}, {"weights": "x"}):
        path.write_text(json.dumps(right | wrong))
        assert measuring.kept(opened) is None
    right["weights"] = file.name
    path.write_text(json.dumps(right))
    assert measuring.kept(opened, str(file)) == right and measuring.kept(opened) is None
    os.utime(file, (path.stat().st_mtime + 9,) * 2)  # the file was written anew
    assert measuring.kept(opened, str(file)) is None


def test_no_runs(tmp_path):
    with pytest.raises(errors.ConfigError, match="no folder of a run matches"):
        measuring.find([f"{tmp_path}/**"])
    with pytest.raises(errors.ConfigError, match="--only='\\(' is not a regular expression"):
        measuring.find([f"{tmp_path}/**"], only="(")


@pytest.mark.parametrize("content", ["", "{", "[1]", "3"])
def test_damaged_reports_are_named(runs, content, tmp_path):
    opened = experiment.load(runs / "mt-seed0")
    opened.workdir = str(tmp_path)
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval/any.json").write_text(content)
    with pytest.raises(errors.CheckpointError, match="eval/any.json is damaged"):
        measuring.kept(opened)
    (tmp_path / "config.json").write_text((runs / "mt-seed0/config.json").read_text())
    (tmp_path / "origin.json").write_text(content)
    with pytest.raises(errors.CheckpointError, match="origin.json is damaged"):
        measuring.made_by(str(tmp_path))


def test_a_report_without_the_figure(tiny):
    with pytest.raises(errors.DataError, match="no figure 'exact_match'"):
        measuring.figure_of(tiny({"select": "exact_match", "select_mode": "max"}), {"loss": 1.0})
