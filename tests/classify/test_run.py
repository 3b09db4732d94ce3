"""From a messy table to a run with a report, end to end."""

import csv
import json
import logging

import pytest

import lwt
from lwt import errors
from lwt.classify import baseline, run
from tests.classify import messy

OPTIONS = run.Options(model="embedder", epochs=2, merge_labels=True, rename_labels=("Biling:Billing",), min_rows=3)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """``(path, what is wrong with the table, workdir, figures, lines that were printed)``."""
    folder, lines = tmp_path_factory.mktemp("classify"), []
    path = folder / "tickets.csv"
    wrong = messy.write(path, 400)
    workdir = folder / "run"
    figures = run.classify(path, workdir, options=OPTIONS, say=lines.append)
    return path, wrong, workdir, figures, lines


def test_the_figures_and_the_report(made):
    _, wrong, workdir, figures, lines = made
    assert figures["rows"] == 400 and figures["classes"] == 12 and json.dumps(figures)
    for kind in ("malformed", "no text", "no label", "contradictory", "repeated", "nearly repeated"):
        assert figures["left_out"][kind] == wrong[kind], kind
    used = sum(figures[part] for part in ("train", "validation", "test"))
    assert used == 400 - sum(figures["left_out"].values())
    linear, model = figures["models"]
    assert linear["model"] == baseline.NAME and linear["accuracy"] > 0.8
    assert model["model"] == "embedder" and model["bytes"] == 4 * model["parameters"]
    assert 0 <= model["ece"] <= 1 and -1 <= model["mcc"] <= 1 and model["seconds"] > 0
    page = (workdir / "classify/report.md").read_text(encoding="utf-8")
    for part in ("## Figures", "## The table", "## Classes", "## Confusion matrix", "## The worst errors", "## Next"):
        assert part in page
    assert "../eval/test.confusion.png" in page and (workdir / "eval/test.confusion.png").exists()
    assert any("so that no figure covers them" in line for line in lines) is False  # --min_rows=3 left those out
    assert lines[-3].startswith("  python -m lwt predict new.csv") and all("lwt export" in line for line in lines[-2:])


def test_every_row_that_is_left_out_is_listed(made):
    path, _, workdir, figures, _ = made
    with open(workdir / "classify/left_out.csv", encoding="utf-8-sig", newline="") as file:
        listed = list(csv.DictReader(file))
    assert len(listed) == sum(figures["left_out"].values()) and all(row["reason"] for row in listed)
    with open(path, encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    for row in listed:
        if row["kind"] != "malformed":
            assert table[int(row["row"])][1].strip() == row["text"] or row["kind"] == "no text"
            assert int(table[int(row["row"])][0]) == int(row["row"])


def test_the_errors_are_those_of_the_run(made):
    _, _, workdir, figures, _ = made
    with open(workdir / "classify/errors.csv", encoding="utf-8-sig", newline="") as file:
        wrong = list(csv.DictReader(file))
    assert len(wrong) == round((1 - figures["models"][1]["accuracy"]) * figures["test"])
    assert [float(row["score"]) for row in wrong] == sorted((float(row["score"]) for row in wrong), reverse=True)
    experiment = lwt.load(workdir)
    assert experiment.predict([row["text"] for row in wrong[:5]]) == [row["prediction"] for row in wrong[:5]]
    recorded = json.loads((workdir / "eval/test.json").read_text())
    assert recorded["accuracy"] == figures["models"][1]["accuracy"] and recorded["records"] == figures["test"]


def test_the_same_call_continues_and_another_is_refused(made):
    path, _, workdir, figures, _ = made
    before = (workdir / "metrics.jsonl").read_bytes()
    again = run.classify(path, workdir, options=OPTIONS, say=lambda line: None)
    assert (workdir / "metrics.jsonl").read_bytes() == before
    assert again["models"][1] == figures["models"][1] and again["left_out"] == figures["left_out"]
    other = run.Options(**{**OPTIONS.__dict__, "seed": 1})
    with pytest.raises(errors.ConfigError, match="was begun with seed=0, not 1: give another folder"):
        run.classify(path, workdir, options=other, say=lambda line: None)


def test_without_scikit_learn_the_rest_goes_on(made, monkeypatch, caplog):
    path, _, workdir, figures, _ = made
    monkeypatch.setattr(baseline, "available", lambda: False)
    lines = []
    with caplog.at_level(logging.INFO):
        found = run.classify(path, workdir, options=OPTIONS, say=lines.append)
    assert [model["model"] for model in found["models"]] == ["embedder"]
    assert any("pip install 'lwt[sklearn]'" in line for line in lines)


def test_options_are_checked_before_anything_is_read(tmp_path):
    for options, message in (
        (dict(time="ten"), "--time=ten should be a number of seconds, minutes or hours"),
        (dict(model="embbertt"), "--model=embbertt: no such model or folder"),
        (dict(base="nowhere"), "--base=nowhere: no such model or folder"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            run.classify(tmp_path / "none.csv", tmp_path / "run", options=run.Options(**options))
    with pytest.raises(errors.ConfigError, match="none of the characters"):
        run.classify(tmp_path / "none.csv", tmp_path / "a,b")
    with pytest.raises(errors.ConfigError, match="--rename_labels=x: expected OLD:NEW"):
        run.renames(["x"])
    assert run.renames([" a : b  c"]) == {"a": "b c"} and run.seconds_of("1.5m") == 90 and run.seconds_of("") == 0
    assert str(run.default_workdir("a/My tickets.csv.gz")) == "runs/My-tickets"
