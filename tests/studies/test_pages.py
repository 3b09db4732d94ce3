"""Pages of docs/results, made again: what is committed comes out, but for command lines and the pixels of pictures."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from benchmarks import attention_page, run
from lwt.data import sources
from lwt.report import pages, records, results, study
from studies.approximate_gradients import gradients_report
from studies.embbert import paper as embbert_paper
from studies.embbert import report as embbert_report
from studies.embbert import scores as embbert_scores
from studies.inspection import memories
from studies.lighter import fronts, pareto, quantize
from studies.lora_ranks import report as rank_report
from studies.radar import report as radar_report
from studies.radar import study as radar

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
COMMAND = re.compile(r"^ {4}python -m .*$", re.MULTILINE)
OF_RECORDS = sorted(path.parent.name for path in RESULTS.glob(f"*/{records.NAME}"))


def without_commands(path):
    text = COMMAND.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r'"command": "(\\.|[^"\\])*"', "", text) if path.suffix == ".json" else text


def assert_same(page, made, *, files=None):
    """Compares the files of a page with those of the folder `made`; both have the same pictures."""
    names = files or {path.name for path in page.iterdir()}
    assert names <= {path.name for path in made.iterdir()}
    for name in sorted(names):
        if not name.endswith(".png"):
            assert without_commands(made / name) == without_commands(page / name), name


@pytest.mark.parametrize("name", [name for name in OF_RECORDS if name != "radar"])
def test_a_page_is_made_from_its_records_alone(name, tmp_path):
    page, out = RESULTS / name, tmp_path / "out"
    out.mkdir()
    shutil.copy(page / records.NAME, out)
    line = COMMAND.search((page / "README.md").read_text(encoding="utf-8")).group()
    given = [part for part in shlex.split(line)[1:] if not part.startswith(("--workdir=", "--out="))]
    done = subprocess.run(
        [sys.executable, *given, f"--out={out}", "--report_only"],
        cwd=ROOT, env={**os.environ, "LWT_DATA": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert_same(page, out)


def test_the_page_on_approximate_gradients(tmp_path):
    page = RESULTS / "approximate_gradients"
    shutil.copy(page / "results.json", tmp_path)
    gradients_report.write(tmp_path)
    assert_same(page, tmp_path)


def test_the_page_on_the_cost_of_attention(tmp_path):
    page = RESULTS / "attention"
    shutil.copy(page / "results.json", tmp_path)
    attention_page.write(tmp_path, [])
    assert_same(page, tmp_path)


def test_the_page_on_speed():
    page = RESULTS / "speed"
    assert run.page(results.load(page / "results.json")) == (page / "README.md").read_text(encoding="utf-8")


def test_the_pareto_page(tmp_path):
    page, out = RESULTS / "pareto", tmp_path / "pareto"
    rows = results.load(page / "results.json")
    about = dict(machine=rows[0]["hardware"], command_line=rows[0]["command"])
    names = pareto.write(out, fronts.points_of(rows), **about)
    assert (tmp_path / "pareto.md").read_bytes() == (RESULTS / "pareto.md").read_bytes()
    assert {*names, "results.json"} == {path.name for path in page.iterdir()}


@pytest.mark.parametrize("name", ["quantization_snips", "quantization_translation"])
def test_the_pages_of_formats(name, tmp_path):
    page = RESULTS / name
    rows = results.load(page / "results.json")
    about = dict(calibrate=256, rounds=7, records=0, machine=rows[0]["hardware"], command_line=rows[0]["command"])
    files = quantize.write_page(tmp_path, fronts.points_of(rows), rows=rows, **about)
    assert {*files} == {path.name for path in page.iterdir()}
    assert_same(page, tmp_path)


@pytest.mark.parametrize("name", ["memories", "memories_embbert"])
def test_tables_of_memories(name):
    page, found = RESULTS / name, {}
    for row in results.load(page / "results.json"):
        own = found.setdefault(row["overrides"]["layer"], dict.fromkeys(memories.FIGURES))
        own[row["metric"]] = row["value"]
    assert memories.table(found) in (page / "README.md").read_text(encoding="utf-8")


def test_the_radar_page(tmp_path, monkeypatch):
    """From its records; the linear classifier's figures, which need the data, are those of the page."""
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    page, out = RESULTS / "radar", tmp_path / "out"
    text = (page / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"\| (?:linear classifier|the most frequent class) \| – \| ([\d.]+) \| ([\d,]+) \|", text)
    linear, majority = lines[::2], lines[1::2]
    figures = {
        name: dict(accuracy=float(a) / 100, majority=float(b) / 100, test=int(count.replace(",", "")))
        for (_, name, _), (a, count), (b, _) in zip(radar_report.SETS.values(), linear, majority, strict=True)
    }
    small = sources.load("generated:radar_har,difficulty=easy,size=10@test")
    monkeypatch.setattr(radar_report.linear_classifier, "of_images", figures.get)
    monkeypatch.setattr(radar_report.sources, "load", lambda name, split: small)
    records.unpack(page / records.NAME, tmp_path / "runs")
    found, _ = study.collect(tmp_path / "runs", [], record=radar.RECORD)
    radar_report.write(out, found, missing=[], command_line="python -m studies.radar")
    assert_same(page, out, files={path.name for path in page.iterdir()} - {records.NAME})


@pytest.mark.parametrize("name", ["embbert", "embbert_tuned"])
def test_tables_of_embbert_without_records(name, tmp_path):
    """The scores are made from the rows; how the runs were trained stands in no row."""
    page = RESULTS / name
    rows = results.load(page / "results.json")
    scores = embbert_scores.collect(rows)
    lines = {number: embbert_scores.lines(table, scores) for number, table in embbert_paper.TABLES.items()}
    made = pages.Page(tmp_path, "", command_line="")
    made.csv("scores.csv", embbert_report.score_list(lines))
    made.csv("memory.csv", embbert_report.memory_table(rows))
    assert_same(page, tmp_path, files={"scores.csv", "memory.csv"})
    text = (page / "README.md").read_text(encoding="utf-8")
    for number, table in embbert_paper.TABLES.items():
        if any(any(line.values()) for line in lines[number].values()):
            assert embbert_report.score_table(table, lines[number]) in text
    assert all(sentence in text for sentence in embbert_report.findings(lines, rows))


def test_tables_of_the_rank_study(tmp_path):
    """Tables, sentences and the CSV are made from the rows; the base and the rates stand in no row."""
    page = RESULTS / "lora_ranks"
    by_title = rank_report.groups(results.load(page / "results.json"))
    made = pages.Page(tmp_path, "", command_line="")
    made.csv("table.csv", rank_report.csv_table(by_title))
    assert_same(page, tmp_path, files={"table.csv"})
    text = (page / "README.md").read_text(encoding="utf-8")
    assert pages.bullets(rank_report.findings(by_title)) in text
    assert all(rank_report.table(rows) in text for rows in by_title.values())
