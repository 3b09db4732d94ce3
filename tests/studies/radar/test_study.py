"""The study of radar maps: its runs, one of them, and the page of records that are made up."""

import pytest

from lwt.report import results
from studies.radar import report, study

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_entries():
    names = [entry.name for entry in study.entries(seeds=2)]
    assert len(names) == len(set(names)) == 2 * 6 * (1 + 5) + 2  # models, five folds of the recording, classifiers
    assert "radar_har-lh_vit-seed0" in names and "radar_parrad-cnn-fold4-seed1" in names


def test_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    (entry,) = [entry for entry in study.entries(smoke=True) if entry.name == "radar_har-lh_vit-seed0"]
    record = study.run(entry, str(tmp_path / "runs"))
    assert record["steps"] == 2 and len(record["answers"]) == record["figures"]["records"]
    right = sum(label == answer for label, answer in record["answers"])
    assert right / len(record["answers"]) == pytest.approx(record["figures"]["accuracy"])
    assert {label for label, _ in record["answers"]} <= {*record["classes"]}
    assert 0 <= record["int8"]["accuracy"] <= 1 and record["int8"]["bytes"] > 0


def record_of(data, model, answers, seed=0, **fold):
    return {
        "arguments": {"model": model, "data": data, "seed": seed} | fold,
        "config": "configs/lh_vit.py:x",
        "steps": 20,
        "figures": {"data": "generated:x@test"},
        "classes": ["boxing", "walking"],
        "answers": answers,
        "parameters": 1234,
        "seconds": 1800.0,
        "hardware": "h",
    }


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    small = "generated:radar_har,difficulty=easy,size=32"
    for data, (title, _, axes) in report.SETS.items():
        monkeypatch.setitem(report.SETS, data, (title, small, axes))
        monkeypatch.setitem(report.EXAMPLES, data, "test")
    right, wrong = ["boxing", "boxing"], ["walking", "boxing"]
    records = {
        "a": record_of("radar_har", "lh_vit", [right, right, right, wrong]),
        "b": record_of("radar_har", "lh_vit", [right, right, wrong, wrong], seed=1),
        "c": record_of("radar_parrad", "lh_vit", [right], fold=0),
        "d": record_of("radar_parrad", "lh_vit", [right, wrong], fold=1),
        "e": record_of("radar_parrad", "vit", [right], fold=0),  # its other fold is not there: no figure
    }
    records["b"]["int8"] = {"accuracy": 0.25, "bytes": 1500}
    figures = {"accuracy": 0.625, "majority": 0.5, "test": 8}
    records["linear"] = {"arguments": {"model": "linear", "data": "radar_har"}, "figures": figures}
    files = report.write(tmp_path / "out", records, missing=["f"], command_line="python -m study")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(files)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "| lh_vit | 1,234 | 62.50 ± 17.68 (n=2) | 25.00 (n=1) | 1,500 | 4 |" in text
    assert "| lh_vit | 1,234 | 66.67 (n=1) | – | – | 3 |" in text
    assert "| vit |" not in text and "Not in the figures: f." in text
    assert text.count("| linear classifier | – | 62.50 | – | – | 8 |") == 1
    rows = results.load(tmp_path / "out" / "results.json")
    assert [row["value"] for row in rows if row["metric"] == "accuracy"] == pytest.approx([0.75, 0.5, 2 / 3])
