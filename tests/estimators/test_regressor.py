"""The regressor learns numbers of any scale, is saved, and is an estimator to scikit-learn."""

import numpy as np
import pytest
import sklearn.base
import sklearn.metrics

import lwt
from lwt import errors
from lwt.estimators import base as estimator

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_it_learns_and_is_saved(base, texts, tmp_path):
    given, labels = texts
    numbers = np.array([1000 if label == "billing" else 2000 for label in labels])
    model = lwt.Regressor(base, epochs=30, rate=3e-3, length=16).fit(given, numbers)
    found = model.predict(given)
    assert found.shape == (40,) and model.score(given, numbers) == pytest.approx(
        sklearn.metrics.r2_score(numbers, found)
    )
    assert model.score(given, numbers) > 0.5 and sklearn.base.is_regressor(sklearn.base.clone(model))
    model.save(tmp_path / "saved")
    again = lwt.load(tmp_path / "saved")
    assert type(again) is lwt.Regressor and (again.predict(given) == found).all()


def test_a_validation_set_has_two_records_or_none(base):
    drawn = [len(estimator.drawn(np.zeros(n, int), share=0.1, seed=0, least=2)) for n in (2, 3, 4, 14, 40)]
    assert drawn == [0, 0, 2, 2, 4]
    model = lwt.Regressor(base, epochs=1, length=16).fit([f"a text {i}" for i in range(6)], range(6))
    assert np.isfinite(model.predict(["a text"])).all()


@pytest.mark.parametrize("targets", [["x", "y"], [1.0, np.nan], [2.0, 2.0], [[1.0], [2.0]]])
def test_what_is_no_number_is_named(targets):
    with pytest.raises(errors.DataError, match="the targets must be"):
        lwt.Regressor().fit(["a", "b"], targets)


def test_a_fit_that_fails_keeps_the_scale():
    model = lwt.Regressor(validation=0)
    model.mean_, model.scale_ = 5.0, 2.0
    with pytest.raises(errors.ConfigError, match="validation=0"):
        model.fit(["a", "b"], [1.0, 2.0])
    assert (model.mean_, model.scale_) == (5.0, 2.0)
