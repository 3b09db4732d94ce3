"""ROUGE, by hand and by group."""

import pytest

from lwt import errors
from lwt.metrics import rouge


def f1(precision, recall):
    return 100 * 2 * precision * recall / (precision + recall)


def test_by_hand():
    hypotheses = ["police kill the gunman", "the gunman kills police"]
    references = ["Police killed the gunman"] * 2
    found = rouge.score(hypotheses, references, groups=["in order", "turned"])
    assert found["rouge1"] == pytest.approx(100)  # stems, in lower case
    assert found["rouge2"] == pytest.approx((100 + f1(1 / 3, 1 / 3)) / 2)  # "the gunman" alone
    assert found["rougeL/in order"] == pytest.approx(100)
    assert found["rougeL/turned"] == pytest.approx(f1(2 / 4, 2 / 4))  # "the gunman"
    assert found["rougeL"] == pytest.approx((100 + f1(2 / 4, 2 / 4)) / 2) and found["summaries"] == 2
    assert rouge.score(["a b"], ["a b c d"])["rouge1"] == pytest.approx(f1(1, 2 / 4))


def test_wrong_input():
    with pytest.raises(errors.DataError, match="the split is empty"):
        rouge.score([], [])
    with pytest.raises(errors.DataError, match="1 answers, 2 references"):
        rouge.score(["a"], ["a", "b"])
