"""Ordered classes: targets that fall off with the distance, and figures of the distance."""

import operator

import jax
import numpy as np
import optax
import pytest
import scipy.special
import sklearn.metrics

from lwt import errors
from lwt.tasks import classify, ordinal
from tests.tasks import test_classify


def test_the_targets_fall_off_with_the_distance():
    table, labels, ids = test_classify.problem()
    apply, batch = test_classify.model(table), test_classify.batch_of(labels, ids, fillers=3)
    task = ordinal.Ordinal(sharpness=1.5, class_weights=(1.0, 2.0, 1.0, 0.5))
    targets = scipy.special.softmax(-1.5 * np.abs(np.arange(4) - labels[:, None]), axis=1)
    nats = optax.softmax_cross_entropy(table, targets) * np.array([1, 2, 1, 0.5])[labels]
    assert float(task.loss(apply, batch)[0]) == pytest.approx(float(nats.sum()), rel=1e-5)
    plain = classify.Classify()
    assert float(task.loss(apply, batch, train=False)[0]) == float(plain.loss(apply, batch)[0])
    sharp = ordinal.Ordinal(sharpness=50.0).loss(apply, batch)
    assert float(sharp[0]) == pytest.approx(float(plain.loss(apply, batch)[0]), rel=1e-5)
    assert "mae" not in task.finish(sharp[2])


def test_figures_of_sums_and_of_predictions_equal_scikit_learn():
    table, labels, ids = test_classify.problem()
    task, apply = ordinal.Ordinal(), test_classify.model(table)
    parts = [test_classify.batch_of(labels[i : i + 20], ids[i : i + 20], fillers=3) for i in (0, 20)]
    by_sums = task.finish(jax.tree.map(operator.add, *map(test_classify.jitted(task, apply), parts)))
    assert by_sums == pytest.approx(task.score(table, labels), rel=1e-5)
    assert by_sums["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(labels, table.argmax(1)))
    assert task.score(labels, labels)["kappa"] == 1


def test_settings_without_effect_are_refused():
    with pytest.raises(errors.ConfigError, match="label_smoothing=0.1 has no effect: .*task.sharpness"):
        ordinal.Ordinal(label_smoothing=0.1)
    with pytest.raises(errors.ConfigError, match="task.sharpness=0.0 should be above 0"):
        ordinal.Ordinal(sharpness=0.0)
