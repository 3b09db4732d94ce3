"""The table of best and worst translations."""

import pytest

from lwt import errors
from lwt.metrics import translation

SOURCES = ["ein hund", "zwei\nkatzen | hier", "ein *mann*", "frau"]
PREDICTIONS = ["a dog", "two cats | here", "x y", "the woman"]
REFERENCES = ["a dog", "two cats | there", "a *man*", "a woman"]


def test_best_and_worst():
    text = translation.extremes(SOURCES, PREDICTIONS, REFERENCES, count=1)
    lines = text.splitlines()
    assert lines[0] == "### Best translations" and "### Worst translations" in lines
    assert "| ein hund | a dog | a dog | 1.0000 |" in lines
    assert [line for line in lines if line.startswith("| ein \\*mann")] == [
        "| ein \\*mann\\* | x y | a \\*man\\* | 0.0000 |"
    ]
    assert len([line for line in lines if line.startswith("| ")]) == 6  # two headers, two rules, two rows


def test_no_sentence_is_in_both_tables_and_cells_hold():
    text = translation.extremes(SOURCES, PREDICTIONS, REFERENCES, count=5)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line and "Source" not in line]
    assert len(rows) == 4 and len(set(rows)) == 4
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)  # four cells
    assert any("zwei katzen \\| hier" in row for row in rows)
    scores = [float(row.split(" | ")[-1].rstrip(" |")) for row in rows]
    assert scores[:2] == sorted(scores)[:1:-1] and scores[2:] == sorted(scores)[:2]  # best first, then worst first


def test_escaping():
    assert translation.escape(" a|b\r\n<i>c\\ & `d` ") == "a\\|b &lt;i>c\\\\ &amp; \\`d\\`"


def test_one_sentence_and_wrong_input():
    assert "Worst" not in translation.extremes(["a"], ["b"], ["c"])
    with pytest.raises(errors.DataError, match="the split is empty"):
        translation.extremes([], [], [])
    with pytest.raises(errors.DataError, match="1 sources for 2 references"):
        translation.extremes(["a"], ["b", "c"], ["d", "e"])
