"""The page writer: the text of README.md, the files of a page, and the command line."""

import sys

from lwt.report import pages, results

ROW = dict(
    config="c",
    overrides={},
    seed=0,
    split="test",
    metric="m",
    value=1,
    paper=None,
    hardware="h",
    seconds=1,
    command="x",
)


def test_a_page(tmp_path):
    page = pages.Page(tmp_path / "out", "Title", command_line="python -m x")
    assert page.rows([ROW]) == [ROW] == results.load(tmp_path / "out/results.json")
    page.add("First.", "", pages.bullets(pages.notes({"a": {}})), "| a |\n| --- |\n")
    page.picture("a.png", "a picture").write_bytes(b"")
    page.csv("a.csv", (["x", "y"], [[1, None], [2.5, "z"]]))
    page.add(pages.bullets(["one", *pages.notes({"i": {"differs": "x=1, not 2"}}, missing="abcdefgh")]))
    assert page.write() == ["README.md", "results.json", "a.png", "a.csv"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*page.files}
    assert (tmp_path / "out/README.md").read_text() == (
        "# Title\n\n    python -m x\n\nFirst.\n\n| a |\n| --- |\n\n![a picture](a.png)\n\n"
        "- one\n- Not in the figures: a, b, c, d, e, f and 2 more.\n"
        "- Trained with another config than the study's (x=1, not 2): i.\n"
    )
    assert (tmp_path / "out/a.csv").read_bytes() == b"x,y\r\n1,\r\n2.5,z\r\n"


def test_machines_and_hours():
    records = [dict(hardware="b", seconds=3600), dict(hardware="a", seconds=1800), dict(hardware="b", seconds=0)]
    assert (pages.machines(records), pages.hours(records)) == ("a; b", "1.5 hours")
    assert pages.effort(records) == f"{len(records)} runs, 1.5 hours in all on a; b"
    assert pages.effort(records, on="c").endswith(" in all on c")
    assert pages.effort([{"hardware": "a", "seconds": 1800.0}]) == "1 run, 0.5 hours on a"


def test_the_command_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", f"--workdir={tmp_path}/runs/a b", "--report_only"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    assert pages.command_line() == "python train.py '--workdir=runs/a b'"
