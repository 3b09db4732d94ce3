"""Formats: one limit for the size of a record in all of them, and quotes that merge lines."""

import gzip
import json

import pytest

from lwt import errors
from lwt.data import formats


def read(path, **more):
    return [(line, span, record) for _, line, span, record in formats.read((path,), **more)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.JSONL.GZ", "a.csv", "a.tsv", "a.txt", "a.de"])
def test_a_record_above_the_limit_is_malformed_in_every_format(tmp_path, name):
    path, long = tmp_path / name, "x" * 150_000  # above the 131,072 characters of the csv module
    rows = ["x", "a", long, "b"] if ".csv" in name or ".tsv" in name else ["a", long, "b"]
    if "json" in name.lower():
        rows = [json.dumps({"x": row}) for row in rows]
    content = "\n".join(rows).encode()
    path.write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    paths = (path, path) if name == "a.de" else (path,)
    found = [record for *_, record in formats.read(paths)]
    assert len(found) == 3 and long in found[1].values()
    short = [record for *_, record in formats.read(paths, max_megabytes=0.1)]
    assert [isinstance(record, formats.Malformed) for record in short] == [False, True, False]
    assert str(short[1]) == "longer than data.max_megabytes=0.1 allows" and "b" in short[2].values()


def test_a_line_that_expands_is_read_in_constant_memory(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(b" " * 1_000_000)
        file.write(b'\n{"x": "b"}\n')
    (_, _, first), second = read(path, max_megabytes=1)
    assert isinstance(first, formats.Malformed) and second == (2, 1, {"x": "b"})


def test_a_large_array_of_json_is_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"x": "y" * 100} for _ in range(100)]))
    assert len(read(path)) == 100
    with pytest.raises(
        errors.DataError, match=r"larger than 0 MB; write one record per line \(.jsonl\), or raise data.max"
    ):
        read(path, max_megabytes=0.001)


def test_quotes_that_merge_lines_are_warned_of(tmp_path, caplog):
    path = tmp_path / "a.csv"
    rows = [f"{i},text {i}" for i in range(40)]
    path.write_text("\n".join(["n,x", *rows[:10], '10,"open', *rows[11:30], '30,close"', *rows[31:]]) + "\n")
    found = read(path)
    assert len(found) == 20
    assert (
        "1 cell spans 21 lines that look like records" in caplog.text
        and "check the quotes in lines 12-32" in caplog.text
    )


def test_texts_of_several_lines_are_fine(tmp_path, caplog):
    path, poem = tmp_path / "a.csv", "\n".join(["Two roads diverged, and sorry", "I could not", "travel both"] * 5)
    path.write_text(f'n,x\n1,"{poem}"\n2,"one\ntwo"\n')
    assert [record["x"] for _, _, record in read(path)] == [poem, "one\ntwo"] and not caplog.text


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.txt"])
def test_zero_bytes_are_malformed(tmp_path, name):
    rows = [json.dumps({"x": f"row {i}"}) if name == "a.jsonl" else f"row {i}" for i in range(20)]
    content = "\n".join(rows if name in ("a.jsonl", "a.txt") else ["x", *rows]).encode()
    (tmp_path / name).write_bytes(content[:60] + bytes(50) + content[110:])
    wrong = [record for _, _, record in read(tmp_path / name) if isinstance(record, formats.Malformed)]
    assert "zero bytes" in str(wrong[0])


@pytest.mark.parametrize(
    "content, words",
    [("\na,b\n1,2\n", "a.csv:1: the first line must name the fields"), ("a,b\n1,2\r3,4\n", "a carriage return inside")],
)
def test_what_is_wrong_with_a_table_is_said(tmp_path, content, words):
    (tmp_path / "a.csv").write_text(content, newline="")
    with pytest.raises((errors.DataError, formats.Malformed), match=words):
        for _, _, _, record in formats.read([tmp_path / "a.csv"]):
            if isinstance(record, formats.Malformed):
                raise record
