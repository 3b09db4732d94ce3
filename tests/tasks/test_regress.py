"""Regression of records, with a model that looks up its values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lwt import errors
from lwt.tasks import regress
from tests.tasks.test_classify import batch_of, model


def test_loss_and_correlations_equal_scipy():
    rng = np.random.default_rng(0)
    labels = rng.uniform(0, 5, 30).astype("f4")
    table, ids = (labels[:, None] + rng.normal(size=(30, 1))).astype("f4"), np.arange(30)
    task, batch = regress.Regress(), batch_of(labels, ids, fillers=4)
    value, count, sums = task.loss(model(table), batch)
    assert float(value / count) == pytest.approx(((table[:, 0] - labels) ** 2).mean(), rel=1e-6)
    assert task.finish(sums) == task.finish(task.evaluate(model(table), batch))
    figures = task.score(np.asarray(task.predict(model(table), batch))[:30], labels, groups=["x"] * 30)
    assert figures["pearson"] == pytest.approx(scipy.stats.pearsonr(table[:, 0], labels).statistic, abs=1e-6)
    assert figures["spearman"] == pytest.approx(scipy.stats.spearmanr(table[:, 0], labels).statistic)
    assert figures["rmse"] ** 2 == pytest.approx(figures["loss"])
    assert figures["spearman/x"] == figures["spearman"]
    assert figures["loss"] == pytest.approx(task.finish(sums)["loss"], rel=1e-6) and figures["examples"] == 30
    gradient = jax.grad(lambda table: task.loss(model(table), batch)[0])(table)
    np.testing.assert_allclose(gradient, 2 * (table - labels[:, None]), rtol=1e-5)


def test_wrong_input():
    with pytest.raises(errors.ConfigError, match="model.outputs=2 must be 1"):
        regress.Regress().predict(model(np.zeros((6, 2))), batch_of(np.zeros(2), np.arange(2)))
    task = regress.Regress()
    empty = task.evaluate(model(np.zeros((6, 1))), batch_of(np.zeros(1, int), np.arange(1)))
    with pytest.raises(errors.DataError, match="the split is empty"):
        task.finish(jax.tree.map(jnp.zeros_like, empty))
