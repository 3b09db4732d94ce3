"""Figures per class equal scikit-learn's, and the confusion matrix comes as a table and a picture."""

import builtins
import csv
import io

import numpy as np
import pytest
import scipy.special
import sklearn.metrics

from lwt.runs import calibration, class_report

NAMES = ("billing", 'the "other", one', "$x$", "never")


def problem(count=200, unknown=False):
    generator = np.random.default_rng(0)
    labels, logits = generator.integers(0, 3, count), generator.normal(size=(count, 4))
    logits[:, 3] = -9
    logits[np.arange(count), labels] += 1
    labels[: 5 * unknown] = -1
    return logits, labels


def test_figures_per_class_equal_scikit_learn():
    logits, labels = problem()
    figures, contents = class_report.of(logits, labels, names=NAMES)
    theirs = sklearn.metrics.classification_report(
        labels, logits.argmax(1), labels=range(4), target_names=NAMES, output_dict=True, zero_division=0
    )
    assert list(figures) == ["ece", "per_class"] and list(figures["per_class"]) == list(NAMES)
    for name, found in figures["per_class"].items():
        wanted = {("f1" if key == "f1-score" else key): value for key, value in theirs[name].items()}
        assert found == pytest.approx(wanted)
    header, *rows = csv.reader(io.StringIO(contents["confusion.csv"]))
    assert header == ["label", *NAMES] and [row[0] for row in rows] == list(NAMES)
    counts = sklearn.metrics.confusion_matrix(labels, logits.argmax(1), labels=range(4))
    np.testing.assert_array_equal([list(map(int, row[1:])) for row in rows], counts)
    assert contents["confusion.png"].startswith(b"\x89PNG")


def test_unknown_labels_have_a_row_and_a_temperature_adds_figures():
    logits, labels = problem(unknown=True)
    figures, contents = class_report.of(logits, labels, names=NAMES, fitted=calibration.Calibration(temperature=2.0))
    assert contents["confusion.csv"].splitlines()[-1].startswith("?,")
    assert sum(map(int, contents["confusion.csv"].splitlines()[-1].split(",")[1:])) == 5
    assert figures["temperature"] == 2 and figures["ece_calibrated"] != figures["ece"]
    wanted = sklearn.metrics.log_loss(labels[5:], scipy.special.softmax(logits[5:] / 2, axis=1), labels=range(4))
    assert figures["loss_calibrated"] == pytest.approx(wanted)


def test_without_matplotlib_there_is_no_picture(monkeypatch, caplog):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    _, contents = class_report.of(*problem(), names=NAMES)
    assert [*contents] == ["confusion.csv"] and "pip install matplotlib" in caplog.text


def test_many_classes_are_drawn():
    counts = np.eye(150, dtype=int)
    assert class_report.draw(counts, names=[f"class {i}" for i in range(150)]).startswith(b"\x89PNG")
