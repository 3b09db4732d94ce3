"""Reading a table: every format, the columns, and the rows that cannot be used."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest

from lwt import errors
from lwt.classify import table

RECORDS = [{"text": f"text {i}", "label": "ab"[i % 2]} for i in range(6)]


def put(folder, name, records):
    """Writes records in the format of the name; returns the path."""
    path = folder / name
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
        return path
    if name.endswith(".json"):
        text = json.dumps(records)
    elif ".jsonl" in name:
        text = "\n".join(map(json.dumps, records))
    else:
        separator = "\t" if ".tsv" in name else ","
        rows = [list(records[0]), *(record.values() for record in records)]
        text = "\n".join(separator.join("" if x is None else str(x) for x in row) for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def read(path, **options):
    return table.read(table.find(path), **options)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.csv.gz", "a.parquet"])
def test_all_formats_give_the_same_rows(tmp_path, name):
    found = read(put(tmp_path, name, RECORDS))
    assert [(row.text, row.label) for row in found.rows] == [(r["text"], r["label"]) for r in RECORDS]
    assert [row.number for row in found.rows] == [1, 2, 3, 4, 5, 6] and not found.left_out
    assert len(found.notes) == 2 and "'text', by its name" in found.notes[0]


def test_a_table_may_be_a_folder_or_files_of_parts(tmp_path):
    for part in ("train", "dev", "test"):
        put(tmp_path, f"{part}.csv", RECORDS)
    assert set(table.find(tmp_path)) == {"train", "validation", "test"}
    assert [row.part for row in read(tmp_path).rows[::6]] == ["train", "validation", "test"]
    parts = table.find(tmp_path / "train.csv", test=str(tmp_path / "test.csv"))
    assert list(parts) == ["train", "test"] and list(table.find(tmp_path / "train.csv")) == [""]
    with pytest.raises(errors.ConfigError, match="has a part test of its own"):
        table.find(tmp_path, test=str(tmp_path / "test.csv"))


def test_labels_txt_names_numbers(tmp_path):
    for part in ("train", "test"):
        put(tmp_path, f"{part}.jsonl", [{"text": f"text {i}", "label": i % 3} for i in range(6)])
    (tmp_path / "labels.txt").write_text("joy\nfear\nlove\n")
    found = read(tmp_path)
    assert [row.label for row in found.rows[:4]] == ["joy", "fear", "love", "joy"] and "labels.txt" in found.notes[-1]
    (tmp_path / "labels.txt").write_text("joy\nfear\n")
    assert [row.label for row in read(tmp_path).rows[:3]] == ["0", "1", "2"]  # they do not fit


def test_rows_that_cannot_be_used_are_told_with_the_reason(tmp_path):
    values = [("good", 1), (None, 1), ("  ", 2), ("good too", None), (5, 1), ("text", float("nan")), ("\ud800", 1)]
    path = tmp_path / "a.jsonl"
    lines = [json.dumps({"text": text, "label": label}) for text, label in values]
    path.write_text("\n".join([*lines, *[lines[0]] * 12, "{"]) + "\n")
    found = read(path)
    told = [
        (wrong.row.number, wrong.kind, wrong.reason) for wrong in sorted(found.left_out, key=lambda w: w.row.number)
    ]
    assert [(number, kind) for number, kind, _ in told] == [
        (2, "no text"), (3, "no text"), (4, "no label"), (5, "no text"), (6, "no label"), (7, "malformed"),
        (20, "malformed"),
    ]  # fmt: skip
    assert told[3][2] == "the text is 5, and not a text" and told[-1][2].startswith("bad JSON")
    assert found.rows[0].label == "1" and len(found.rows) == 13


def test_numbers_of_rows_and_lines_differ_after_texts_of_several_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"two\nlines",a\nx,y,z\nlast,b\n' + "more,a\n" * 20)
    found = read(path)
    assert [(row.number, row.line) for row in found.rows[:2]] == [(1, 2), (3, 5)]
    (wrong,) = found.left_out
    assert (wrong.row.number, wrong.row.line, wrong.reason) == (2, 4, "3 cells instead of 2 (text, label)")


def test_a_wrong_quote_loses_the_rows_that_it_joins(tmp_path):
    rows = [f"text {i},a" for i in range(100)]
    rows[95] = '"5 inch screen is broken,a'
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    found = read(path)
    (wrong,) = found.left_out
    assert wrong.reason.startswith("lines 97 to 101 are read as one row: ") and len(found.rows) == 95
    assert table.counts(found.left_out) == {"malformed": 5}
    with pytest.raises(errors.DataError, match="5 of 100 rows are malformed"):
        read(path, max_malformed=0.04)


def test_the_label_is_never_in_the_text(tmp_path):
    path = put(tmp_path, "a.csv", [{"subject": "one", "topic": "x", "priority": "high"}])
    with pytest.raises(errors.DataError, match="--label should name the column of the labels"):
        read(path, text="subject+topic")
    with pytest.raises(
        errors.ConfigError, match="--label=topic names a column of --text=subject.topic; the label must"
    ):
        read(path, text="subject+topic", label="topic")
    plus = put(tmp_path, "b.csv", [{"title+body": "one", "kind": "x"}])
    with pytest.raises(errors.DataError, match="the column 'title.body' needs another name"):
        read(plus, label="kind")


def test_columns_are_joined_and_guessed_only_where_one_fits(tmp_path):
    path = put(tmp_path, "a.csv", [{"title": "one", "body": "two", "class": "a", "id": 7}] * 3)
    assert read(path, text="title+body").rows[0].text == "one two"
    assert read(path).text == "body"
    two = read(put(tmp_path, "b.csv", [{"Beschreibung": "one", "label": "a"}]))
    assert two.text == "Beschreibung"
    for records, wanted in (
        (
            [{"a": "a", "b": "b", "c": "c"}],
            "--text should .* of the texts and --label should .* labels; the first row of .*c.csv names 'a', 'b', 'c'",
        ),
        ([{"text": "a", "message": "b", "label": "c"}], "--text should name the column of the texts"),
        ([{"text": "a", "topic": "b", "label": "c"}], "--label should name the column of the labels"),
    ):
        with pytest.raises(errors.DataError, match=wanted):
            read(put(tmp_path, "c.csv", records))


@pytest.mark.parametrize(
    "options, message",
    [
        (
            dict(text="Anfrage"),
            "--text=Anfrage: .*a.csv has no column 'Anfrage'; it has 'text', 'label'; name one of these$",
        ),
        (dict(text="txt"), "--text=txt: .*a.csv has no column 'txt'; it has 'text', 'label'; did you mean 'text'"),
        (dict(label="Label"), "--label=Label: .*; did you mean 'label'"),
        (dict(text="text+title"), "no column 'title'"),
        (dict(text="text", label="text"), "--label=text names a column of --text=text"),
    ],
)
def test_wrong_columns_are_named_with_those_that_exist(tmp_path, options, message):
    with pytest.raises(errors.LwtError, match=message):
        read(put(tmp_path, "a.csv", RECORDS), **options)


def test_files_that_are_no_table_are_refused(tmp_path):
    put(tmp_path, "tickets.csv", RECORDS)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "empty.csv").write_text("text,label\n")
    (tmp_path / "bad.csv").write_text("text,label\n" + "one,two,three\n" * 5 + "one,a\n")
    (tmp_path / "lists.jsonl").write_text('{"text": "a", "label": ["x", "y"]}\n')
    (tmp_path / "folder").mkdir()
    for name, message in {
        "ticket.csv": "did you mean 'tickets.csv'",
        "a.xlsx": "save it as CSV",
        "a.txt": "a table must be a .csv",
        "empty.csv": "has no rows",
        "bad.csv": "5 of 6 rows are malformed .83%, --max_malformed allows 10%.: .*bad.csv:2: 3 cells",
        "lists.jsonl": "the label is .'x', 'y'.; it must be one text or one number",
        "folder": "without a file of a part train",
    }.items():
        with pytest.raises(errors.DataError, match=message):
            read(tmp_path / name)
