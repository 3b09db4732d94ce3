"""Damaged files of studies, and folders that cannot be written, give one line that names them."""

import gzip

import pytest

from lwt import errors
from lwt.report import pages, plots, records, results, study

CONTENTS = {
    "empty": b"",
    "cut": b'[{"a": 1\n',
    "gzip": gzip.compress(b"{}" * 1000)[:-9],
    "bytes": b"\xff\xfe\n",
    "deep": b"[" * 100_000 + b"\n",
    "other": b'{"a": "b"}\n1\n',
}
READERS = {
    "results.json": lambda folder: results.load(folder / "results.json"),
    "records.jsonl.gz": lambda folder: records.load(folder / "records.jsonl.gz"),
    "metrics.jsonl": lambda folder: plots.read(folder, "a"),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named(name, content, tmp_path):
    data = CONTENTS[content]
    if name == "metrics.jsonl":
        data += b'{"step": 2, "a": 1}\n'  # the last line may be in the middle of being written
    (tmp_path / name).write_bytes(data)
    if content == "empty" and name != "results.json":  # no runs, or no rows of this figure
        assert len(READERS[name](tmp_path)) in (0, 2)
        return
    with pytest.raises(errors.DataError, match=name) as caught:
        READERS[name](tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("content", CONTENTS)
def test_a_damaged_record_counts_as_none(content, tmp_path):
    (tmp_path / "study.json").write_bytes(CONTENTS[content])
    assert study.read_record(tmp_path, "study.json") is None


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_folder_that_is_a_file(below, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(errors.ConfigError, match="--out=.*out.* cannot be written .*; give another folder"):
        pages.Page(tmp_path / "out" / below, "Title")
    assert (tmp_path / "out").read_text() == ""
