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


def test_parts_and_groups():
    groups = ["x", "y", "x", "y"]
    first = translation.sums(HYPOTHESES[:1], REFERENCES[:1], groups=groups[:1])
    rest = translation.sums(HYPOTHESES[1:], REFERENCES[1:], groups=groups[1:])
    figures = translation.finish({name: first[name] + rest[name] for name in first})
    assert figures == translation.score(HYPOTHESES, REFERENCES, groups=groups)
    assert figures["bleu/x"] == sacrebleu.corpus_bleu(HYPOTHESES[::2], [REFERENCES[::2]]).score
    assert {k: v for k, v in figures.items() if "/" not in k} == translation.score(HYPOTHESES, REFERENCES)


def test_wrong_input():
    with pytest.raises(errors.DataError, match="2 hypotheses for 1 references"):
        translation.score(["a", "b"], ["a"])
    with pytest.raises(errors.DataError, match="the split is empty"):
        translation.score([], [])
