"""What a table holds is found and counted exactly, and nothing is merged unless asked to."""

import collections

import pytest

from lwt import errors
from lwt.classify import look, table
from studies.data import tickets


def rows(*pairs, part=""):
    """A `table.Table` of pairs of text and label."""
    made = [
        table.Row(part, "a.csv", i, i + 1, {"text": text}, " ".join(label.split()), label)
        for i, (text, label) in enumerate(pairs, 1)
    ]
    return table.Table({part: ["a.csv"]}, "text", "label", made, [])


def kinds(looked):
    return collections.Counter(wrong.kind for wrong in looked.left_out)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_mess_is_found_and_counted(tmp_path, seed):
    path = tmp_path / "tickets.csv"
    made = tickets.write(path, 1200, seed=seed)
    found = look.look(table.read(table.find(path)))
    assert len(found.rows) + len(found.left_out) == made["rows"] == 1200
    names = ("malformed", "no text", "no label", "repeated", "nearly repeated")
    assert {name: kinds(found)[name] for name in names} == {name: made[name] for name in names}
    assert kinds(found)["contradictory"] == made["contradictory"]
    assert found.exact == made["repeated"] and found.normalized == made["nearly repeated"]
    spellings = {label for group in found.alike for label in group} - set(tickets.TOPICS)
    assert sum(found.counts[label] for label in spellings) == made["alike"]
    assert sum(found.counts[label] for label in found.typos) == made["typos"]
    assert sum(found.spaced.values()) == made["spaced"]
    assert found.counts["Quantum"] == 1 and found.counts["Legal"] == 2
    assert [*found.scripts] == ["Latin"]


def test_labels_are_merged_and_renamed_only_when_asked():
    given = rows(*((f"text {i}", "Billing") for i in range(30)), ("x", "billing "), ("y", "Biling"), ("z", "Other"))
    found = look.look(given)
    assert found.counts == {"Billing": 30, "billing": 1, "Biling": 1, "Other": 1} and found.merged == {}
    assert found.alike == [["Billing", "billing"]] and found.typos == {"Biling": "Billing"}
    assert found.spaced == {"billing": 1}
    found = look.look(given, merge=True, rename={"Biling": "billing"})  # renamed to a label that is merged
    assert found.counts == {"Billing": 32, "Other": 1}
    assert found.merged == {"Biling": ("Billing", 1), "billing": ("Billing", 1)}
    with pytest.raises(errors.ConfigError, match="no row has the label 'Bilings'; did you mean 'Biling'"):
        look.look(given, rename={"Bilings": "Billing"})


def test_labels_are_renamed_to_new_ones():
    given = rows(("a", "0"), ("b", "1"), ("c", "2"), ("d", "1"))
    found = look.look(given, rename={"0": "negative", "1": "positive"})
    assert found.counts == {"positive": 2, "negative": 1, "2": 1}
    assert found.merged == {"0": ("negative", 1), "1": ("positive", 2)}


def test_a_number_that_is_not_finite_is_no_class():
    found = look.look(rows(("a", "0"), ("b", "1"), ("c", "nan")))
    with pytest.raises(
        errors.DataError, match="column 'y' are numbers, but for 'nan' .1 rows.; leave those cells empty"
    ):
        look.check(found, column="y")
    look.check(look.look(rows(("a", "bread"), ("b", "nan"))), column="y")


def test_a_repeated_text_stays_once_and_a_contradiction_not_at_all():
    found = look.look(
        rows(
            ("Hello <b>you</b>", "a"),
            ("hello  YOU", "a"),
            ("Hello <b>you</b>", "a"),
            ("x", "a"),
            ("X", "b"),
            ("y", "b"),
        )
    )
    assert [row.number for row in found.rows] == [1, 6]
    assert [(wrong.row.number, wrong.kind) for wrong in found.left_out] == [
        (2, "nearly repeated"), (3, "repeated"), (4, "contradictory"), (5, "contradictory"),
    ]  # fmt: skip
    assert found.left_out[1].reason == "the text is that of row 1"
    assert found.left_out[2].reason == "the text has several labels: 'a' in row 4, 'b' in row 5"


def test_a_text_of_two_parts_stays_in_the_test():
    train, test = rows(("one", "a"), ("two", "b"), part="train"), rows(("ONE", "a"), part="test")
    found = look.look(table.Table({**train.files, **test.files}, "text", "label", train.rows + test.rows, []))
    assert [(row.part, row.text) for row in found.rows] == [("test", "ONE"), ("train", "two")]


def test_rare_labels_are_left_out_when_asked():
    given = rows(("one", "a"), ("two", "a"), ("three", "b"), ("four", "b"), ("five", "c"))
    assert kinds(look.look(given)) == {} and kinds(look.look(given, min_rows=2)) == {"rare label": 1}
    with pytest.raises(errors.DataError, match="no row is left to use"):
        look.check(look.look(given, min_rows=3), column="label")
    with pytest.raises(errors.DataError, match="all rows to use have the label 'a' in column 'label'; .* needs two"):
        look.check(look.look(rows(("one", "a"), ("two", "a"))), column="label")


def test_numbers_to_predict_are_refused_and_whole_numbers_are_classes():
    with pytest.raises(errors.DataError, match="numbers with a fraction; to predict numbers: python train.py"):
        look.check(look.look(rows(("one", "0.5"), ("two", "1"), ("three", "2"))), column="label")
    found = look.look(rows(("one", "1"), ("two", "2"), ("three", "2")))
    look.check(found, column="label")
    assert found.counts == {"2": 2, "1": 1}


def test_misspelled_labels_are_rare_and_differ_in_a_letter_or_two():
    counts = {"technical": 100, "techincal": 3, "shipping": 100, "shopping": 90, "level 1": 100, "level 2": 1, "sad": 1}
    assert look.misspelled({**counts, "mad": 100}) == {"techincal": "technical"}


def test_scripts_of_texts():
    texts = ["hello", "Grüße an ärzte", "привет всем", "你好吗", "123 !", "こんにちは"]
    wanted = {"Latin": 2, "Cyrillic": 1, "Chinese characters": 1, "no letters": 1, "Japanese": 1}
    assert look.scripts(texts) == wanted
