"""Correlations equal SciPy's, with defined values for degenerate input."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from lwt import errors
from lwt.metrics import correlation


@pytest.mark.parametrize("levels", [None, 11, 2])  # no ties, ties, almost only ties
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_scipy(levels, dtype):
    rng = np.random.default_rng(0)
    y = rng.uniform(0, 5, 200)
    x = 3 + 1e-3 * (np.exp(y) + 20 * rng.normal(size=200))
    if levels:
        x, y = np.round(x / np.ptp(x) * levels), np.round(y / 5 * (levels - 1))
    x, y = x.astype(dtype), y.astype(dtype)
    figures = correlation.score(x, y)
    exact = x.astype("f8"), y.astype("f8")
    assert figures["pearson"] == pytest.approx(scipy.stats.pearsonr(*exact).statistic, abs=1e-12)
    assert figures["spearman"] == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)
    assert figures["examples"] == 200


def test_ends_of_the_scale():
    y = np.array([0.5, 1.0, 4.0, 4.5])
    assert correlation.pearson(2 * y + 1, y) == pytest.approx(1)
    assert correlation.pearson(-y, y) == pytest.approx(-1)
    assert correlation.spearman(y**5, y) == pytest.approx(1)
    constant = np.full(4, 0.1, np.float32)  # a model that learned nothing scores 0, not NaN
    assert correlation.pearson(constant, y) == correlation.spearman(constant, y) == 0


def test_errors_equal_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    p = y + rng.normal(size=50)
    found = correlation.error_figures(p, y)
    assert found["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(y, p))
    assert found["rmse"] == pytest.approx(sklearn.metrics.root_mean_squared_error(y, p))
    assert found["r2"] == pytest.approx(sklearn.metrics.r2_score(y, p))
    for answer in (1.0, 2.0):
        wanted = sklearn.metrics.r2_score([1.0, 1.0], [answer] * 2)
        assert correlation.error_figures([answer] * 2, [1.0, 1.0])["r2"] == wanted


def test_groups():
    figures = correlation.score([1, 2, 3, 3, 2, 1], [1, 2, 3, 1, 2, 3], groups=list("aaabbb"))
    assert (figures["spearman/a"], figures["spearman/b"]) == pytest.approx((1, -1))


@pytest.mark.parametrize("power", [-1050, -700, -1, 0, 3, 700, 1000])
def test_numbers_of_any_size_correlate_as_small_ones_do(power):
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = x + rng.normal(size=50)
    wanted, scaled = correlation.score(x, y), np.ldexp(x, power)
    assert correlation.score(scaled, y) == pytest.approx(wanted, abs=1e-6 if power < -1000 else 0)
    assert correlation.score(scaled, np.ldexp(y, power))["pearson"] == pytest.approx(wanted["pearson"], abs=1e-5)
    assert correlation.pearson([1e200, 2e200, 3e200], [1, 2, 3]) == pytest.approx(1)


def test_a_group_of_one_record_is_left_out_and_named(caplog):
    found = correlation.score([1, 2, 3, 4], [1, 2, 4, 3], groups=["a", "a", "b", None])
    assert {name for name in found if "/" in name} == {"spearman/a"}
    assert "spearman/b is left out" in caplog.text and "spearman/None is left out" in caplog.text


def test_one_record_has_no_correlation(caplog):
    assert correlation.score([1.0], [2.0]) == {"examples": 1}
    assert "there is one record" in caplog.text


def test_wrong_input():
    with pytest.raises(errors.NotFinite, match="prediction 1 .* is nan"):
        correlation.score([1.0, np.nan, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(errors.DataError, match="at least two records, not 1"):
        correlation.pearson([1.0], [1.0])
    with pytest.raises(errors.DataError, match="3 answers, 2 references"):
        correlation.score([1.0, 2.0, 3.0], [1.0, 2.0])
