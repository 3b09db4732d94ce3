"""Records come out of a file of each format as they went in."""

import io
import json

import pyarrow
import pyarrow.parquet
import pytest

from lwt import errors
from lwt.data import formats, record_writer

RECORDS = [
    {"id": "1", "text": 'say "three", four'},
    {"id": "2", "text": "two\nlines"},
    {"id": "3", "text": " ünï,\tcödé "},
]


def test_what_is_written_is_read_again(tmp_path):
    for name, records in {
        "x.csv": RECORDS,
        "semicolons.csv": RECORDS,
        "x.jsonl": [*RECORDS, {"id": 4, "more": None}],
        "x.tsv": [{"id": "1", "text": 'an " alone'}],
    }.items():
        source = tmp_path / f"source of {name}"
        source.write_text("id;text\n" if name.startswith("semi") else "id,text\n")
        with open(tmp_path / name, "w", newline="", encoding="utf-8") as file:
            writer = record_writer.Writer(source, file, added={})
            writer.write(records[:2])
            writer.write(records[2:])
            writer.close()
        assert [record for *_, record in formats.read([tmp_path / name])] == records, name
    assert (tmp_path / "semicolons.csv").read_text().startswith("id;text\n")


@pytest.mark.parametrize("written", ["\ufeffid;text\n1;ünï\n".encode(), b"id;text\n" + "1;ünï\n".encode("cp1252") * 3])
def test_a_table_of_a_spreadsheet_begins_with_its_mark(tmp_path, written):
    (tmp_path / "x.csv").write_bytes(written)
    with open(tmp_path / "y.csv", "w", newline="", encoding="utf-8") as file:
        writer = record_writer.Writer(tmp_path / "x.csv", file, added={})
        for _ in range(2):
            writer.write([{"id": "1", "text": "ünï"}])
    assert (tmp_path / "y.csv").read_bytes() == "\ufeffid;text\n1;ünï\n1;ünï\n".encode()


def test_a_parquet_keeps_its_types(tmp_path):
    table = pyarrow.table({"text": ["a", "b"], "day": pyarrow.array([1, 2], pyarrow.int16())})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with open(tmp_path / "y.parquet", "wb") as file:
        added = {"prediction": str, "score": float, "abstained": bool}
        writer = record_writer.Writer(tmp_path / "x.parquet", file, added=added)
        answers = [{"prediction": "p", "score": 0.5, "abstained": False}, {"prediction": None, "abstained": True}]
        writer.write([record | answer for record, answer in zip(table.to_pylist(), answers, strict=True)])
        writer.close()
    found = pyarrow.parquet.read_table(tmp_path / "y.parquet")
    assert found.schema.field("day").type == pyarrow.int16() and found.column_names[2:] == [*added]
    assert found["prediction"].to_pylist() == ["p", None] and found["abstained"].to_pylist() == [False, True]


def test_cells_of_a_table_are_texts(tmp_path):
    file = io.StringIO()
    (tmp_path / "x.csv").write_text("a,b,c\n")
    record_writer.Writer(tmp_path / "x.csv", file, added={}).write([{"a": None, "b": True, "c": 0.5}])
    assert file.getvalue() == "a,b,c\n,true,0.5\n"
    file = io.StringIO()
    record_writer.Writer("x.json", file, added={}).write([{"a": None, "b": True, "c": "ü"}])
    assert file.getvalue() == '{"a": null, "b": true, "c": "ü"}\n' and json.loads(file.getvalue())["b"] is True


def test_another_format_is_refused():
    record_writer.check_out("x.json", "y.jsonl")
    record_writer.check_out("x.csv.gz", "y.csv")
    for out in ("y.tsv", "y.csv.gz", "y"):
        with pytest.raises(errors.ConfigError, match=f"--out={out}: records of a .csv are written as .csv"):
            record_writer.check_out("x.csv", out)


def test_a_name_that_is_taken_gets_a_number():
    assert record_writer.free_name("score", {"text"}) == "score"
    assert record_writer.free_name("score", {"score", "score_2"}) == "score_3"


def test_half_a_surrogate_pair_is_written_as_it_was(tmp_path):
    with open(tmp_path / "b.jsonl", "w", encoding="utf-8") as file:
        writer = record_writer.Writer(tmp_path / "a.jsonl", file, added={})
        writer.write([{"a": "\ud800"}, {"a": "ä"}])
        writer.close()
    assert (tmp_path / "b.jsonl").read_text(encoding="utf-8") == '{"a": "\\ud800"}\n{"a": "ä"}\n'
