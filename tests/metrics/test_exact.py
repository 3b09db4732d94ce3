"""Exact match, overall and by group."""

import pytest

from lwt import errors
from lwt.metrics import exact

HYPOTHESES = ["1 2 3", "3  2 1 ", "10 15", "", "1 2 3 4"]
REFERENCES = ["1 2 3", "3 2 1", "10 16", "7", "1 2 3"]
GROUPS = ["ascending", "descending", "add 2", "add 2", "ascending"]


def test_by_hand():
    assert exact.score(HYPOTHESES, REFERENCES, groups=GROUPS) == {
        "exact_match": 2 / 5,
        "exact_match/add 2": 0.0,
        "exact_match/ascending": 1 / 2,
        "exact_match/descending": 1.0,
        "examples": 5,
    }
    assert exact.score(HYPOTHESES, REFERENCES) == {"exact_match": 2 / 5, "examples": 5}


def test_wrong_input():
    with pytest.raises(errors.DataError, match="the split is empty"):
        exact.score([], [])
    with pytest.raises(errors.DataError, match="1 answers, 1 references and 2 groups"):
        exact.score(["1"], ["1"], groups=["a", "b"])
