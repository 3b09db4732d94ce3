"""Figures of several labels per record equal scikit-learn's, and thresholds are the best there are."""

import functools
import operator

import jax
import numpy as np
import pytest
import sklearn.metrics

from lwt import errors
from lwt.metrics import multilabel


def problem(count=120, classes=5):
    generator = np.random.default_rng(classes)
    labels = (generator.random((count, classes)) < np.linspace(0, 0.6, classes)).astype(np.float32)
    return generator.normal(0.8 * (2 * labels - 1)), labels


def test_summed_parts_and_lists_equal_scikit_learn():
    logits, labels = problem()
    answers, wanted = logits > 0, {"examples": 120}
    wanted["subset_accuracy"] = sklearn.metrics.accuracy_score(labels, answers)
    for average in ("micro", "macro"):
        for name in ("precision", "recall", "f1"):
            function = getattr(sklearn.metrics, f"{name}_score")
            wanted[f"{name}_{average}"] = function(labels, answers, average=average, zero_division=0)
    parts = [jax.jit(multilabel.sums)(logits[i : i + 40], labels[i : i + 40]) for i in (0, 40, 80)]
    total = functools.reduce(functools.partial(jax.tree.map, operator.add), parts)
    assert multilabel.finish(total) == pytest.approx(wanted) == multilabel.score(logits, labels)
    found = multilabel.per_class(logits, labels, names="abcde")
    theirs = sklearn.metrics.classification_report(
        labels, answers, target_names=[*"abcde"], output_dict=True, zero_division=0
    )
    for name in "abcde":
        assert found[name] == pytest.approx({key.replace("f1-score", "f1"): x for key, x in theirs[name].items()})


def test_unknown_labels_are_wrong_and_of_no_class():
    logits, labels = problem()
    strange = np.where(np.arange(120)[:, None] < 12, -1.0, labels)
    known, found = multilabel.score(logits[12:], labels[12:]), multilabel.score(logits, strange, groups=["a"] * 120)
    assert found["f1_macro"] == known["f1_macro"] and found["examples"] == 120
    assert found["subset_accuracy"] == pytest.approx(known["subset_accuracy"] * 0.9) == found["subset_accuracy/a"]
    with pytest.raises(errors.DataError, match="the split is empty"):
        multilabel.score(logits[:0], labels[:0])


def test_thresholds_have_the_best_f1_of_all():
    logits, labels = problem()
    shares = np.round(1 / (1 + np.exp(-logits)), 1)  # with many equal ones
    found = multilabel.fit_thresholds(shares, labels)
    assert found[0] == 0.5  # no record has class 0
    for k in range(1, 5):
        scores = [sklearn.metrics.f1_score(labels[:, k], shares[:, k] >= bound) for bound in np.linspace(0, 1, 201)]
        assert sklearn.metrics.f1_score(labels[:, k], shares[:, k] >= found[k]) == pytest.approx(max(scores))
