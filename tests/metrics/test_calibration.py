"""Calibration by the definitions, and a temperature that is found again."""

import numpy as np
import pytest
import scipy.special
import sklearn.metrics

from lwt import errors
from lwt.metrics import calibration


def problem(count=4000, classes=4, temperature=1.0):
    """Logits, and labels drawn from ``softmax(logits / temperature)``."""
    generator = np.random.default_rng(classes)
    logits = generator.normal(0, 2, (count, classes))
    shares = scipy.special.softmax(logits / temperature, axis=1)
    return logits, (shares.cumsum(1) < generator.random((count, 1))).sum(1)


def test_probabilities_and_likelihood_equal_scikit_learn_and_scipy():
    logits, labels = problem()
    shares = calibration.softmax(logits)
    np.testing.assert_allclose(shares, scipy.special.softmax(logits, axis=1), rtol=1e-12)
    wanted = sklearn.metrics.log_loss(labels, shares)
    assert calibration.negative_log_likelihood(logits, labels) == pytest.approx(wanted, rel=1e-9)
    assert np.isfinite(calibration.softmax([[1e4, 0.0]])).all()


def test_the_error_is_the_mean_gap_of_the_bins():
    logits, labels = problem(500)
    shares = calibration.softmax(logits)
    confidence, right, total = shares.max(1), shares.argmax(1) == labels, 0.0
    for low in range(15):
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert calibration.expected_calibration_error(shares, labels) == pytest.approx(total, abs=1e-12)
    assert calibration.expected_calibration_error([[1.0, 0.0], [0.0, 1.0]], [0, 0]) == 0.5
    assert calibration.expected_calibration_error([[1.0, 0.0]], [-1]) == 1.0
    with pytest.raises(errors.DataError, match="the numbers differ"):
        calibration.expected_calibration_error(shares, labels[:3])


@pytest.mark.parametrize("temperature", [0.25, 1.0, 3.0])
def test_the_temperature_of_the_labels_is_found(temperature):
    logits, labels = problem(temperature=temperature)
    found = calibration.fit_temperature(logits, labels)
    assert found == pytest.approx(temperature, rel=0.15)
    best = calibration.negative_log_likelihood(logits, labels, temperature=found)
    for other in (found * 0.999, found * 1.001):
        assert calibration.negative_log_likelihood(logits, labels, temperature=other) >= best


def test_a_temperature_is_bounded():
    assert 1 / calibration.HOTTEST <= calibration.fit_temperature([[3.0, 0.0]] * 3, [0] * 3) < 0.1
    assert calibration.fit_temperature([[3.0, 0.0]] * 3, [1] * 3) == pytest.approx(calibration.HOTTEST, rel=0.01)
