"""Classification with several labels per record, with a model that looks up its logits."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import sklearn.metrics

from lwt.tasks import multilabel
from tests.tasks import test_classify

CLASSES = 4


def problem(rows=40):
    generator = np.random.default_rng(0)
    labels = (generator.random((rows, CLASSES)) < 0.4).astype(np.float32)
    return generator.normal(2 * labels - 1).astype("f4"), labels, np.arange(rows)


def batch_of(labels, ids, *, fillers=0):
    batch = test_classify.batch_of(labels[:, 0], ids, fillers=fillers)
    return batch | {"label": np.concatenate([labels, np.zeros((fillers, CLASSES), "f4")])}


def test_loss_equals_optax_with_smoothing_and_weights():
    table, labels, ids = problem()
    apply, batch = test_classify.model(table), batch_of(labels, ids, fillers=5)
    value, count, sums = multilabel.Multilabel().loss(apply, batch)
    wanted = optax.sigmoid_binary_cross_entropy(table, labels).mean(1)
    assert float(value) == pytest.approx(float(wanted.sum()), rel=1e-6) and float(count) == 40
    right = ((table > 0) == (labels > 0)).all(1).mean()
    assert multilabel.Multilabel().finish(sums)["subset_accuracy"] == pytest.approx(right)
    task = multilabel.Multilabel(label_smoothing=0.2, class_weights="balanced")
    task = task.for_labels("abcd", labels.sum(0), records=40)
    positive = (40 - labels.sum(0)) / labels.sum(0)
    nats = optax.sigmoid_binary_cross_entropy(table, labels * 0.8 + 0.1) * np.where(labels > 0, positive, 1)
    assert float(task.loss(apply, batch)[0]) == pytest.approx(float(nats.mean(1).sum()), rel=1e-5)
    assert float(task.loss(apply, batch, train=False)[0]) == float(value)


def test_figures_of_sums_and_of_predictions_are_the_same():
    table, labels, ids = problem()
    labels[:4] = -1
    task, apply = multilabel.Multilabel(), test_classify.model(table)
    parts = [batch_of(labels[i : i + 20], ids[i : i + 20], fillers=3) for i in (0, 20)]
    by_sums = task.finish(jax.tree.map(operator.add, *map(test_classify.jitted(task, apply), parts)))
    predictions = np.concatenate([np.asarray(task.predict(apply, part))[:20] for part in parts])
    assert by_sums == pytest.approx(task.score(predictions, labels), rel=1e-5)
    assert by_sums["unknown_labels"] == 4 and by_sums["examples"] == 40
    assert by_sums["f1_micro"] == pytest.approx(sklearn.metrics.f1_score(labels[4:], table[4:] > 0, average="micro"))
    shares = task.probabilities(table)
    np.testing.assert_allclose(shares, 1 / (1 + np.exp(-table)), rtol=1e-5)
    assert shares.dtype == np.float32
    value, count, _ = task.loss(apply, batch_of(labels, ids))
    assert float(count) == 36 and np.isfinite(jnp.asarray(value))


def test_a_label_of_all_records_has_no_balance():
    task = multilabel.Multilabel(class_weights="balanced").for_labels(("a", "b"), (100, 50), records=100)
    assert task.class_weights == (1.0, 1.0)
