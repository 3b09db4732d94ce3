"""The study of number formats on a trained run: its figures, its page, and resuming it."""

import csv
import json
import pathlib

import pytest

import lwt
from lwt import errors
from lwt.export import quantize
from lwt.runs import integer_file as artefact
from lwt.training import train
from studies.lighter import fronts
from studies.lighter import quantize as quantize_study

pytestmark = pytest.mark.usefixtures("compiled_once")

NAMES = ["float32", "int8-static", "int4-32"]


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train.run(tiny({"steps": 2}), folder)
    return lwt.load(folder)


def test_formats_are_evaluated_once_and_reported(run, tmp_path, monkeypatch):
    evaluated = quantize_study.evaluate(run, NAMES, records=5, calibrated=4)
    assert evaluated["float32"]["figures"] == run.evaluate(limit=5)[0]
    for name in NAMES:
        path = pathlib.Path(run.workdir, "quantize_study", f"{name}.safetensors")
        assert evaluated[name]["bytes"] == path.stat().st_size
    static = artefact.load(pathlib.Path(run.workdir, "quantize_study/int8-static.safetensors"))
    assert static["decoder/layer_0/mlp/fc2/kernel"].limit > 0
    smaller = [evaluated[name]["bytes"] for name in ("float32", "int8-static", "int4-32")]
    assert smaller == sorted(smaller, reverse=True)
    losses = [evaluated[name]["figures"]["loss"] for name in NAMES]
    assert len({*losses}) == len(NAMES) and max(losses) < min(losses) + 0.1
    measured = quantize_study.points(run, evaluated, rounds=1)
    assert [p.name for p in measured] == NAMES and all(p.milliseconds > 0 and p.rate > 0 for p in measured)
    about = dict(calibrate=4, machine="a machine", rounds=1, records=5)
    rows = fronts.rows(measured, machine="a machine", seconds=1.0, command_line="python -m x")
    files = quantize_study.write_page(tmp_path, measured, command_line="python -m x", rows=rows, **about)
    text = (tmp_path / "README.md").read_text()
    assert all(f"| {name} |" in text for name in NAMES) and "first 5 records" in text and "{" not in text
    assert [(tmp_path / name).stat().st_size > 10_000 for name in files if name.endswith(".png")] == [True]
    rows = list(csv.DictReader((tmp_path / "formats.csv").open()))
    assert [row["format"] for row in rows] == NAMES and float(rows[0]["difference"]) == 0
    assert json.loads(json.dumps(evaluated)) == evaluated
    monkeypatch.setattr(quantize_study, "write", None)  # nothing is measured again, ...
    assert quantize_study.evaluate(run, NAMES, records=5, calibrated=4) == evaluated
    with pytest.raises(TypeError):  # ... unless it was asked for something else
        quantize_study.evaluate(run, ["int8-static"], records=5, calibrated=5)


def test_static_files_need_limits(run, tmp_path):
    static = quantize.quantize.Quantize(block=0, activations="static")
    with pytest.raises(errors.ConfigError, match="static activations need limits"):
        quantize.export(run, tmp_path / "file", quantization=static)


def test_what_is_chosen():
    assert quantize_study.choose("int4") == ["float32", "int4-32", "int4-64"]
    assert quantize_study.choose() == list(quantize_study.WAYS)
    with pytest.raises(errors.ConfigError, match="--only='\\(' is not a regular expression"):
        quantize_study.choose("(")
