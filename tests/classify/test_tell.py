"""Sentences on a table name the numbers and, where one helps, the flag."""

import csv

from lwt.classify import look, table, tell
from lwt.data import tokenizer
from lwt.runs import pretrained


def looked(*pairs):
    made = [table.Row("", "a.csv", i, i + 1, {"text": text}, label, label) for i, (text, label) in enumerate(pairs, 1)]
    found = table.Table({"": ["a.csv"]}, "text", "label", made, [])
    return found, look.look(found)


def test_labels_that_look_alike_are_told_with_the_flags_that_change_them():
    frequent = [(f"text {i}", "Technical problem") for i in range(30)]
    _, seen = looked(*frequent, ("x", "technical-problem"), ("y", "Tecnical problem"), ("z", "other"))
    said = " ".join(tell.of_labels(seen))
    assert "'Technical problem' (30), 'technical-problem' (1); --merge_labels merges them" in said
    assert "'Tecnical problem' (1) for 'Technical problem'" in said
    assert "'--rename_labels=Tecnical problem:Technical problem' renames them" in said  # quoted for a shell


def test_rows_are_counted_in_good_english(tmp_path):
    found, seen = looked(("x", "a"), ("x", "a"), ("y", "b"), ("z", "b"), ("привет", "b"))
    assert list(tell.of_rows(found, seen)) == [
        "a.csv: 5 rows, of which 4 are used.",
        "Left out: 1 row with the text of another row.",
        "Script of the texts: Latin 75 %, Cyrillic 25 %.",
    ]
    tell.write_left_out(tmp_path / "left_out.csv", seen)
    with open(tmp_path / "left_out.csv", encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "file": "a.csv", "row": "2", "line": "3", "kind": "repeated", "reason": "the text is that of row 1",
        "label": "a", "text": "x",
    }  # fmt: skip


def test_texts_that_are_cut_and_languages_that_the_model_does_not_know():
    own = tokenizer.Tokenizer(pretrained.folder("embbert-encoder") / tokenizer.FILE, specials=tokenizer.ENCODER)
    texts = ["a short text"] * 19 + ["a long text " * 20]
    (said,) = tell.of_tokens(own.encode(texts), longest=32, own=own)
    assert "the median is 6, 95 % have at most 6, the longest has 82; 5 % are longer than 32 and lose their end" in said
    said = list(tell.of_tokens(own.encode(["привет мир"] * 20), longest=32, own=own))
    assert (
        "none is cut" in said[0]
        and said[1].startswith("50 % of the tokens are unknown to the model")
        and "--model=embedder" in said[1]
    )


def test_a_flag_is_not_advised_that_would_rename_something_else():
    _, seen = looked(*[(f"text {i}", "re: refund") for i in range(30)], ("x", "re: refnd"), ("y", "other"))
    said = " ".join(tell.of_labels(seen))
    assert "'re: refnd' (1) for 're: refund'; rename them in the table." in said
