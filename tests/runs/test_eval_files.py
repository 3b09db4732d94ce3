"""The files of an evaluation have names that file systems take, hold what JSON can hold, and are never lost."""

import math

import pytest

from lwt.runs import eval_files


def test_a_name_says_the_data_and_the_settings():
    assert eval_files.stem("folder:x@test", {"beams": 2}) == "folder_x@test_beams=2"


@pytest.mark.parametrize("letter", ["x", "ä", "字"])
def test_a_long_name_is_cut(letter, tmp_path):
    names = [eval_files.stem(letter * 300 + end, {"beams": 2}) for end in "ab"]
    assert names[0] != names[1] and all(len(name.encode()) <= eval_files.LONGEST for name in names)
    eval_files.write(tmp_path, names[0], contents={"json": "{}"})
    assert (tmp_path / "eval" / f"{names[0]}.json").read_text() == "{}"


def test_figures_that_json_cannot_hold_are_null(caplog):
    figures = {"perplexity": math.inf, "loss": 1.0, "pearson": math.nan, "data": "x", "examples": 3}
    found = eval_files.finite(figures)
    assert found == {"perplexity": None, "loss": 1.0, "pearson": None, "data": "x", "examples": 3}
    assert "perplexity is inf, and null in the report" in caplog.text


def test_a_run_that_cannot_be_written_is_reported_elsewhere(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    run = tmp_path / "run"
    run.mkdir()
    (run / "eval").write_text("a file in place of the folder")
    eval_files.write(run, "a", contents={"json": "{}", "md": "x"})
    (folder,) = (tmp_path / "cache/eval").iterdir()
    assert folder.name.startswith("run-") and {path.name for path in folder.glob("[!.]*")} == {"a.json", "a.md"}
    assert f"the report is in {folder}" in caplog.text
    (tmp_path / "file").touch()
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "file"))
    eval_files.write(run, "a", contents={"json": "{}"})
    assert "the files of the evaluation cannot be written" in caplog.text


def test_a_table_has_one_line_a_record():
    found = eval_files.table(["a\tb", "c\nd"], ["x\ty", "z"], labels=["1", "2\n3"])
    assert found == "label\tprediction\ttext\n1\tx y\ta b\n2 3\tz\tc d\n"
