"""Figures of classification equal scikit-learn's and hand-computed ones."""

import functools
import operator
import warnings

import jax
import numpy as np
import pytest
import sklearn.metrics

from lwt import errors
from lwt.metrics import classification

ANSWERS = {  # classes, labels that occur, predictions that occur
    "two": (2, (0, 1), (0, 1)),
    "five": (5, range(5), range(5)),
    "class 3 is never labelled": (5, (0, 1, 2, 4), range(5)),
    "class 3 is never labelled or predicted": (5, (0, 1, 2, 4), (0, 1, 2, 4)),
    "one prediction for all": (5, range(5), (2,)),
    "never positive": (2, (0, 1), (0,)),
    "no positive label": (2, (0,), (0, 1)),
    "labels of an unknown class": (5, (-1, 0, 1, 2, 3, 4), range(5)),
}


def scikit_learn(labels, predictions, classes):
    figures = {
        "accuracy": sklearn.metrics.accuracy_score(labels, predictions),
        "mcc": sklearn.metrics.matthews_corrcoef(labels, predictions),
        "examples": len(labels),
    }
    for average, ending in (("macro", "_macro"), ("weighted", "_weighted"), ("binary", "")):
        if average != "binary" or classes == 2:
            for name in ("precision", "recall", "f1"):
                function = getattr(sklearn.metrics, f"{name}_score")
                figures[name + ending] = function(labels, predictions, average=average, zero_division=0)
    return figures


@pytest.mark.parametrize("case", ANSWERS)
def test_summed_parts_equal_scikit_learn(case):
    classes, labelled, answered = ANSWERS[case]
    rng = np.random.default_rng(len(case))
    labels, answers = rng.choice(labelled, 90), rng.choice(answered, 90)
    answers = np.where((rng.random(90) < 0.4) & np.isin(labels, answered), labels, answers)
    real = rng.random(90) < 0.8
    count = jax.jit(functools.partial(classification.sums, classes=classes))
    parts = [count(answers[i : i + 30], labels[i : i + 30], weights=real[i : i + 30]) for i in (0, 30, 60)]
    assert all(value.shape == () for value in parts[0].values())
    total = functools.reduce(functools.partial(jax.tree.map, operator.add), parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns about a single class
        theirs = scikit_learn(labels[real], answers[real], classes)
    assert classification.finish(total) == pytest.approx(theirs, abs=1e-12)
    assert classification.score(answers[real], labels[real], classes=classes) == pytest.approx(theirs, abs=1e-12)


def test_by_hand():
    figures = classification.score([1, 1, 1, 0], [1, 1, 0, 1])  # of class 1: 2 hits, 3 answers, 3 labels
    wanted = {"accuracy": 1 / 2, "f1": 2 / 3, "precision": 2 / 3, "recall": 2 / 3, "mcc": -1 / 3, "f1_macro": 1 / 3}
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted)
    assert figures["f1_weighted"] == pytest.approx(3 / 4 * 2 / 3)
    mirrored = classification.score([0, 0, 0, 1], [0, 0, 1, 0])
    assert mirrored["f1"] == 0 and mirrored["mcc"] == figures["mcc"]  # only F1 knows which class is the positive one


def test_groups_and_missing_counts():
    figures = classification.score([0, 1, 2], [0, 1, 1], groups=["b", "a", "a"])
    assert (figures["accuracy/a"], figures["accuracy/b"]) == (0.5, 1.0)
    assert "f1" not in figures and "f1_macro" in figures  # three classes have no positive one
    assert classification.finish({"examples": 4.0, "correct": 3.0}) == {"accuracy": 0.75, "examples": 4}


def test_wrong_input():
    with pytest.raises(errors.DataError, match="the split is empty"):
        classification.score([], [])
    with pytest.raises(errors.DataError, match="2 answers, 1 references"):
        classification.score([0, 1], [0])
