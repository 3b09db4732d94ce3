"""Scores against direct calls of sacreBLEU and against hand-computed values."""

import math

import pytest
import sacrebleu

from lwt import errors
from lwt.metrics import translation

HYPOTHESES = ["the cat sat on the mat .", "A man sleeps .", "Two dogs run across a field", ""]
REFERENCES = ["the cat sat on a mat .", "a man is sleeping .", "Two dogs run across a field", "nothing"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_equals_sacrebleu(lowercase):
    figures = translation.score(HYPOTHESES, REFERENCES, lowercase=lowercase)
    assert figures["bleu"] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=lowercase).score
    fold = str.lower if lowercase else str  # sacreBLEU's own function for chrF takes no such option
    chrf = sacrebleu.corpus_chrf([fold(h) for h in HYPOTHESES], [[fold(r) for r in REFERENCES]]).score
    assert figures["chrf"] == pytest.approx(chrf, abs=1e-12)
    each = [
        sacrebleu.sentence_bleu(fold(h), [fold(r)], use_effective_order=True).score / 100
        for h, r in zip(HYPOTHESES, REFERENCES)
    ]
    assert figures["sentence_bleu"] == pytest.approx(sum(each) / 4, abs=1e-12)
    assert figures["sentences"] == 4
    assert f"case:{'lc' if lowercase else 'mixed'}" in figures["bleu_signature"]
    assert figures["bleu_signature"].startswith("nrefs:1|") and "tok:13a" in figures["bleu_signature"]
    assert "nc:6" in figures["chrf_signature"]


def test_bleu_by_hand():
    """Matches of "a b c d e" in "a b c d f g": 4/5, 3/4, 2/3, 1/2, and a brevity penalty of exp(1 - 6/5)."""
    expected = math.exp(-1 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    figures = translation.score(["a b c d e"], ["a b c d f g"])
    assert figures["bleu"] == pytest.approx(100 * expected)
    assert figures["sentence_bleu"] == pytest.approx(expected)


def test_groups():
    figures = translation.score(HYPOTHESES, REFERENCES, groups=["x", "y", "x", "y"])
    assert figures["bleu/x"] == sacrebleu.corpus_bleu(HYPOTHESES[::2], [REFERENCES[::2]]).score
    assert {k: v for k, v in figures.items() if "/" not in k} == translation.score(HYPOTHESES, REFERENCES)


def test_wrong_input():
    with pytest.raises(errors.DataError, match="2 answers, 1 references"):
        translation.score(["a", "b"], ["a"])
    with pytest.raises(errors.DataError, match="the split is empty"):
        translation.score([], [])


SOURCES = ["ein hund", "zwei\nkatzen | hier", "ein *mann*", "frau"]
PREDICTIONS = ["a dog", "two cats | here", "x y", "the woman"]
WANTED = ["a dog", "two cats | there", "a *man*", "a woman"]


def test_best_and_worst_sentences():
    text = translation.extremes(SOURCES, PREDICTIONS, references=WANTED, count=1)
    lines = text.splitlines()
    assert lines[0] == "### Best translations" and "### Worst translations" in lines
    assert "| ein hund | a dog | a dog | 1.0000 |" in lines
    assert [line for line in lines if line.startswith("| ein \\*mann")] == [
        "| ein \\*mann\\* | x y | a \\*man\\* | 0.0000 |"
    ]
    assert len([line for line in lines if line.startswith("| ")]) == 6  # two headers, two rules, two rows


def test_tables_of_extremes_are_disjoint_and_escaped():
    text = translation.extremes(SOURCES, PREDICTIONS, references=WANTED, count=5)
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line and "Source" not in line]
    assert len(rows) == 4 and len(set(rows)) == 4
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)  # four cells
    assert any("zwei katzen \\| hier" in row for row in rows)
    scores = [float(row.split(" | ")[-1].rstrip(" |")) for row in rows]
    assert scores[:2] == sorted(scores)[:1:-1] and scores[2:] == sorted(scores)[:2]  # best first, then worst first


def test_escape():
    assert translation.escape(" a|b\r\n<i>c\\ & `d` ") == "a\\|b &lt;i>c\\\\ &amp; \\`d\\`"


def test_extremes_of_one_sentence_and_wrong_input():
    assert "Worst" not in translation.extremes(["a"], ["b"], references=["c"])
    with pytest.raises(errors.DataError, match="the split is empty"):
        translation.extremes([], [], references=[])
    with pytest.raises(errors.DataError, match="1 answers, 2 references"):
        translation.extremes(["a"], ["b", "c"], references=["d", "e"])
