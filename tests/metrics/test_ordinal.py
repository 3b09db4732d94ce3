"""Distances on an ordered scale equal scikit-learn's."""

import jax
import numpy as np
import pytest
import sklearn.metrics

from lwt.metrics import ordinal


def test_summed_parts_equal_scikit_learn():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 5, 200)
    answers = np.clip(labels + generator.integers(-2, 3, 200), 0, 4)
    real = generator.random(200) < 0.8
    parts = [ordinal.sums(answers[i : i + 100], labels[i : i + 100], weights=real[i : i + 100]) for i in (0, 100)]
    figures = ordinal.finish(jax.tree.map(lambda x, y: x + y, *parts))
    assert figures["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(labels[real], answers[real]))
    wanted = sklearn.metrics.cohen_kappa_score(labels[real], answers[real], weights="quadratic")
    assert figures["kappa"] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("answer, kappa", [(3, 1.0), (2, 0.0)])
def test_one_answer_to_one_label(answer, kappa):
    found = ordinal.finish(ordinal.sums(np.full(4, answer), np.full(4, 3), weights=np.ones(4)))
    assert found == {"mae": 3 - answer, "kappa": kappa}
