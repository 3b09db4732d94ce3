"""Parts of a table: each class by the same shares, no text in two parts, small classes in the training part."""

import collections
import json

import pytest

from lwt import errors
from lwt.classify import look, split, table
from studies.data import tickets


def rows(count, label, *, part="", start=0):
    places = range(start, start + count)
    return [table.Row(part, "a.csv", i, i + 1, {"text": f"{label} {i}"}, label, label) for i in places]


def test_classes_are_divided_by_the_same_shares():
    parts = split.split(rows(200, "a") + rows(40, "b") + rows(3, "c") + rows(2, "d") + rows(1, "e"))
    counts = {part: collections.Counter(row.label for row in found) for part, found in parts.items()}
    assert counts["test"] == {"a": 30, "b": 6, "c": 1} and counts["validation"] == {"a": 20, "b": 4, "c": 1}
    assert counts["train"] == {"a": 150, "b": 30, "c": 1, "d": 2, "e": 1}
    assert split.untested(parts) == {"d": 2, "e": 1}


def test_the_seed_decides_and_other_classes_do_not():
    one, two = split.split(rows(100, "a") + rows(50, "b")), split.split(rows(100, "a") + rows(50, "c"), seed=0)
    assert [row for row in one["test"] if row.label == "a"] == [row for row in two["test"] if row.label == "a"]
    other = split.split(rows(100, "a") + rows(50, "b"), seed=1)
    assert one["test"] != other["test"] and len(one["test"]) == len(other["test"])


def test_no_text_is_in_two_parts(tmp_path):
    path = tmp_path / "tickets.csv"
    tickets.write(path, 600)
    parts = split.split(look.look(table.read(table.find(path))).rows)
    keys = {part: {look.CLEANER.clean(row.text) for row in found} for part, found in parts.items()}
    assert all(len(keys[part]) == len(parts[part]) for part in parts)
    assert not keys["train"] & keys["test"] and not keys["train"] & keys["validation"]
    assert not keys["validation"] & keys["test"]


def test_given_parts_stay_and_missing_ones_are_drawn():
    given = rows(100, "a", part="train") + rows(100, "b", part="train") + rows(7, "a", part="test", start=500)
    parts = split.split(given)
    assert {part: len(found) for part, found in parts.items()} == {"train": 180, "validation": 20, "test": 7}
    assert {row.part for row in parts["test"]} == {"test"} and {row.part for row in parts["validation"]} == {"train"}


def test_too_few_rows_are_refused():
    with pytest.raises(errors.DataError, match="19 rows can be used; a table to divide needs at least 20"):
        split.split(rows(10, "a") + rows(9, "b"))
    with pytest.raises(errors.DataError, match="every label has fewer than 3 rows, too few to divide"):
        split.split([row for i in range(20) for row in rows(1, f"label {i}")])
    with pytest.raises(errors.DataError, match="no row of the training part can be used"):
        split.split(rows(30, "a", part="test"))
    with pytest.raises(errors.DataError, match="no row of the test part can be used; classify/left_out.csv lists the"):
        split.split(rows(100, "a", part="train"), given=("train", "test"))


def test_the_files_of_parts_keep_the_columns_and_the_numbers_of_rows(tmp_path):
    row = table.Row("", "a.csv", 7, 9, {"title": "one", "body": "zwei ü"}, "a", " a")
    split.write({"train": [row]}, tmp_path, label="class")
    text = (tmp_path / "train.jsonl").read_text(encoding="utf-8")
    assert json.loads(text) == {"title": "one", "body": "zwei ü", "class": "a", "row": 7} and "ü" in text
