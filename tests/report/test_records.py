"""Files of records: what comes back, what a workdir keeps, what is refused."""

import gzip
import json
import time

import pytest

from lwt import errors
from lwt.report import records

RECORD = "eval/study.json"


def folder_of(workdir, name, figures, **files):
    folder = workdir / name
    (folder / "eval").mkdir(parents=True)
    (folder / RECORD).write_text(json.dumps(figures))
    for file, text in {"config.json": '{"seed": 1}', **files}.items():
        (folder / file).write_text(text)
    return figures


@pytest.fixture
def kept(tmp_path):
    """A file of two runs, one of them with its learning curve; and their folders."""
    workdir = tmp_path / "runs"
    files = {"metrics.jsonl": '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": null}\n', "hardware.txt": "a CPU"}
    found = {name: folder_of(workdir, name, {"of": name, "nan": None}, **files) for name in ("b", "a")}
    records.update(tmp_path / "records.jsonl.gz", workdir, found=found, record=RECORD, metrics=["b"])
    return tmp_path / "records.jsonl.gz", workdir


def test_what_is_packed_comes_back(kept, tmp_path):
    path, workdir = kept
    lines = records.load(path)
    assert list(lines) == ["a", "b"] and "metrics" not in lines["a"]
    records.unpack(path, tmp_path / "again")
    for file in ("config.json", RECORD, "metrics.jsonl", "hardware.txt"):
        one, other = ((folder / "b" / file).read_text() for folder in (workdir, tmp_path / "again"))
        assert one == other or json.loads(one) == json.loads(other)
    assert {path.name for path in (tmp_path / "again/a").iterdir()} == {"config.json", "eval"}
    records.write(tmp_path / "copy.jsonl.gz", lines)
    assert (tmp_path / "copy.jsonl.gz").read_bytes() == path.read_bytes()


def test_the_same_records_are_the_same_bytes_and_plain_files_are_read(kept, tmp_path, monkeypatch):
    path, _ = kept
    monkeypatch.setattr(time, "time", lambda: 1e9)
    records.write(tmp_path / "later.jsonl.gz", records.load(path))
    assert (tmp_path / "later.jsonl.gz").read_bytes() == path.read_bytes()
    (tmp_path / "plain.jsonl").write_bytes(gzip.decompress(path.read_bytes()))
    assert records.load(tmp_path / "plain.jsonl") == records.load(path)


def test_a_workdir_keeps_its_own_files(kept, tmp_path):
    path, _ = kept
    workdir = tmp_path / "own"
    folder_of(workdir, "a", {"of": "the workdir"})
    (workdir / "b/checkpoints").mkdir(parents=True)
    records.unpack(path, workdir)
    assert json.loads((workdir / "a" / RECORD).read_text()) == {"of": "the workdir"}
    assert [path.name for path in (workdir / "b").iterdir()] == ["checkpoints"]


def test_only_changed_runs_are_written(kept, tmp_path):
    path, workdir = kept
    before = path.stat().st_mtime_ns, records.load(path)
    found = {name: {"of": name, "nan": None} for name in "ab"}
    (workdir / "a/config.json").write_text('{"seed": 2}')
    records.update(path, workdir, found=found, record=RECORD)
    assert (path.stat().st_mtime_ns, records.load(path)) == before
    found["c"] = folder_of(workdir, "c", {"of": "c"})
    records.update(path, workdir, found=found, record=RECORD, metrics=["a"])
    lines = records.load(path)
    assert lines["b"] == before[1]["b"] and lines["a"]["metrics"][0] == {"step": 1, "loss": 2.5}
    assert lines["c"] == {"name": "c", "config": {"seed": 1}, "records": {RECORD: {"of": "c"}}}


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", ":1 is not JSON"),
        ("[]", ":1 is not a record"),
        ('{"name": "a"}', ":1 is not a record"),
        ('{"name": "../a", "records": {}}', "not a path inside a workdir"),
        ('{"name": "a", "records": {"/etc/x": {}}}', "not a path inside a workdir"),
        ('{"name": "a", "records": {}, "metric": []}', "unknown key 'metric'; did you mean 'metrics'?"),
    ],
)
def test_damaged_files_are_refused(tmp_path, line, message):
    path = tmp_path / "records.jsonl.gz"
    path.write_text(line + "\n")
    with pytest.raises(errors.DataError) as raised:
        records.unpack(path, tmp_path / "runs")
    assert message in str(raised.value) and not (tmp_path / "a").exists()


def test_separators_of_unicode_are_no_ends_of_lines(tmp_path):
    page = {"page": {"name": "page", "records": {"facts.json": {"example": "a\u2028b\u2029c\x85d"}}}}
    records.write(tmp_path / "records.jsonl.gz", page)
    assert records.load(tmp_path / "records.jsonl.gz") == page
