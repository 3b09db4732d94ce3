"""Rows of results: what is refused, what replaces what, and the tables."""

import json
import multiprocessing
import pathlib
import re
import statistics

import pytest

from lwt import errors
from lwt.report import results

ROOT = pathlib.Path(__file__).parents[2]
ROW = {
    "config": "configs/lora_ranks.py",
    "overrides": {"rank": 8},
    "seed": 0,
    "split": "test",
    "metric": "exact_match",
    "value": 0.5,
    "paper": 0.42,
    "hardware": "some CPU, 2 cores",
    "seconds": 12.5,
    "command": "python -m studies.lora_ranks",
}


def row(rank, seed, value, **more):
    return ROW | {"overrides": {"rank": rank}, "seed": seed, "value": value} | more


def test_rows_come_back_and_a_repeated_one_replaces(tmp_path):
    path = tmp_path / "study" / "results.json"
    for each in (row(8, 0, 0.5), row(8, 1, 0.7, paper=None), row(16, 0, 1)):
        results.append(path, each)
    results.append(path, row(8, 0, 0.6))
    assert results.load(path) == [row(8, 0, 0.6), row(8, 1, 0.7, paper=None), row(16, 0, 1)]
    others = [key for key in ROW if key not in ("metric", "value", "paper")]
    assert list(json.loads(path.read_text())[0]) == [*others, "values", "paper"]
    measured = row(4, 0, 0.1) | {"range": [0.05, 0.2], "date": "2026-01-01"}
    results.write(path, [measured])
    assert results.load(path) == [measured]


def test_the_figures_of_a_measurement_are_one_line(tmp_path):
    path = tmp_path / "results.json"
    rows = [
        *(ROW, ROW | {"metric": "loss", "value": 2, "paper": None, "range": None}, ROW | {"metric": "bleu"}),
        *(row(8, 0, 0.25, metric="loss"), row(8.0, 0, 0.5), row(8.0, 0, 0.75)),
    ]
    results.write(path, rows)
    assert results.load(path) == rows
    lines = json.loads(path.read_text())
    assert [line["values"] for line in lines] == [
        {"exact_match": 0.5, "loss": 2, "bleu": 0.5}, {"loss": 0.25}, {"exact_match": 0.5}, {"exact_match": 0.75}
    ]  # fmt: skip
    assert lines[0]["paper"] == {"exact_match": 0.42, "bleu": 0.42} and lines[0]["range"] == {"loss": None}
    path.write_text(json.dumps(rows))
    assert results.load(path) == rows


def test_a_command_is_written_where_it_changes(tmp_path):
    path = tmp_path / "results.json"
    rows = [row(rank, 0, 0.5, command=command) for rank, command in enumerate("aabba")]
    results.write(path, rows)
    assert [line.get("command") for line in json.loads(path.read_text())] == ["a", None, "b", None, "a"]
    assert results.load(path) == rows
    path.write_text(path.read_text().replace('"command": "a", ', "", 1))
    with pytest.raises(errors.DataError, match="row 1: 'command'"):
        results.load(path)


def add(path, seed):
    for value in range(5):
        results.append(path, row(value, seed, 0.0))


def test_runs_of_a_job_array_may_append_at_once(tmp_path):
    path = tmp_path / "results.json"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add, args=(path, seed)) for seed in range(2)]
    for worker in workers:
        worker.start()
    add(path, 2)
    for worker in workers:
        worker.join()
    assert len(results.load(path)) == 15


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"value": None}, "value=None must be of type int or float"),
        ({"value": float("nan")}, "value=nan is not a finite number"),
        ({"seed": True}, "seed=True must be of type int or null"),
        ({"overrides": "rank=8"}, "overrides='rank=8' must be of type dict"),
        ({"metrik": 1}, "unknown key 'metrik'; did you mean 'metric'?"),
        ({"range": [1.0]}, "range=[1.0] must be two finite numbers"),
        ({"date": 1}, "date=1 must be of type str"),
    ],
)
def test_wrong_rows_are_refused_and_the_file_stays(tmp_path, wrong, message):
    path = tmp_path / "results.json"
    results.append(path, ROW)
    with pytest.raises(errors.DataError, match=re.escape(message)):
        results.append(path, ROW | wrong)
    with pytest.raises(errors.DataError, match=re.escape(message)):
        results.write(path, [ROW | wrong])
    assert results.load(path) == [ROW]


def test_missing_key_and_damaged_files(tmp_path):
    path = tmp_path / "results.json"
    with pytest.raises(errors.DataError, match="'seconds' is missing"):
        results.append(path, {key: value for key, value in ROW.items() if key != "seconds"})
    with pytest.raises(errors.DataError, match="cannot be read"):
        results.load(path)
    for text, message in (
        ("[{", "is not JSON"),
        ("{}", "expected a list"),
        ('[{"config": "x"}]', "row 1: 'overrides'"),
        ('[{"config": "x", "values": [1]}]', "row 1: 'overrides'"),
    ):
        path.write_text(text)
        with pytest.raises(errors.DataError, match=message):
            results.append(path, ROW)
        assert path.read_text() == text


def test_cells():
    values = [0.5, 0.7, 0.6]
    rows = [row(8, seed, value) for seed, value in enumerate(values)]
    rows += [row(16, 0, 0.875, paper=0.88), row(8, 0, 2.5, metric="loss", paper=None)]
    found = results.cells(rows, index="rank", columns="metric")
    assert {rank: list(line) for rank, line in found.items()} == {8: ["exact_match", "loss"], 16: ["exact_match"]}
    cell = found[8]["exact_match"]
    assert (cell.mean, cell.count, cell.paper) == (pytest.approx(0.6), 3, 0.42)
    assert cell.deviation == pytest.approx(statistics.stdev(values))
    assert results.Cell.of(values, scale=100).text(1) == "60.0 ± 10.0 (n=3)"
    assert found[16]["exact_match"].text(3) == "0.875 (n=1)"
    with pytest.raises(errors.DataError, match="no 'rnak'.*did you mean 'rank'"):
        results.cells(rows, index="rnak", columns="metric")
    with pytest.raises(errors.DataError, match="several values of the paper"):
        results.cells([*rows, row(8, 5, 0.5, paper=0.43)], index="rank", columns="metric")


def test_shares_are_shown_in_per_cent():
    assert [results.percent(values) for values in ([], [0.5], [0.5, 0.6])] == ["–", "50.0", "55.0 ± 7.1"]
    assert results.percent([0.5, 0.6], digits=2) == "55.00 ± 7.07"
    assert results.named("mcc") == ("MCC", " %", 100) and results.shown("mcc") == ("MCC (%)", 100)
    assert results.named("bleu") == ("BLEU", "", 1) and results.shown("bleu") == ("BLEU", 1)


def test_tables_escape_bars():
    table = results.markdown(["a", "b"], [["x|y", "1"]])
    assert table.splitlines() == ["| a | b |", "| :--- | ---: |", "| x\\|y | 1 |"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/results").glob("*/results.json")), ids=lambda path: path.parent.name
)
def test_the_committed_rows_follow_the_schema(path):
    assert results.load(path)
