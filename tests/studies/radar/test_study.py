"""The study of radar maps: its runs, one of them, and the page of records that are made up."""

import pytest

from lwt.report import results
from studies.radar import report, study

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_entries():
    found = {entry.name: entry.spec.partition(":")[2] for entry in study.entries(seeds=2)}
    # searches, models, the longer runs, five folds of the recording, linear classifiers
    assert len(found) == 6 + 2 * (6 + 1 + 6 * 5) + 2
    assert found["search-radar_har-vit"] == "data=radar_har,model=vit,epochs=30.0"
    assert found["radar_har-cnn_light-seed0"] == "data=radar_har,model=cnn_light,seed=0,epochs=60.0"  # as all others
    assert found["radar_har-cnn_light-epochs180-seed0"] == "data=radar_har,model=cnn_light,epochs=180,seed=0"
    assert found["radar_parrad-cnn-fold4-seed1"] == "data=radar_parrad,model=cnn,fold=4,seed=1,epochs=200.0"


def test_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(study, "RATES", (1e-3, 1e-2))
    monkeypatch.setattr(study, "TRIALS", 2)
    known = {entry.name: entry for entry in study.entries(smoke=True)}
    record = study.run(known["radar_har-lh_vit-seed0"], str(tmp_path / "runs"), known=known)
    found = study.run(known["search-radar_har-lh_vit"], str(tmp_path / "runs"), known=known)
    assert [trial["rate"] for trial in found["tried"]] == [1e-3, 1e-2] and record["rate"] == found["rate"]
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
        "rate": 0.004,
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
    records["g"] = record_of("radar_har", "cnn_light", [right], epochs=180)
    tried = [{"rate": 0.001, "accuracy": 0.5}, {"rate": 0.004, "accuracy": 0.75}]
    arguments = {"stage": "search", "data": "radar_har", "model": "lh_vit"}
    records["search"] = {"arguments": arguments, "metric": "accuracy", "tried": tried, "rate": 0.004}
    records["linear"] = {"arguments": {"model": "linear", "data": "radar_har"}, "figures": figures}
    files = report.write(tmp_path / "out", records, missing=["f"], command_line="python -m study")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(files)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "| lh_vit | 1,234 | 0.004 | 62.50 ± 17.68 (n=2) | 25.00 (n=1) | 1,500 | 4 |" in text
    assert "| lh_vit | 1,234 | 0.004 | 66.67 (n=1) | – | – | 3 |" in text
    assert "| cnn_light, 180 epochs | 1,234 | 0.004 (not searched) | 100.00 (n=1) |" in text
    assert "| lh_vit | 50.0 | 75.0* |" in text
    assert "| vit |" not in text and "Not in the figures: f." in text
    assert text.count("| linear classifier | – | – | 62.50 | – | – | 8 |") == 1
    rows = results.load(tmp_path / "out" / "results.json")
    assert [row["value"] for row in rows if row["metric"] == "accuracy"] == pytest.approx([0.75, 0.5, 2 / 3, 1.0])
