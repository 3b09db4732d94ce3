"""The functions that the program computes itself are close to those of NumPy."""

import numpy as np
import pytest

from lwt.export.c.translation import arithmetic

X = np.linspace(-20, 20, 4001, dtype=np.float32)


@pytest.mark.parametrize(
    ("found", "wanted", "tolerance"),
    [
        (arithmetic.exponential(X), np.exp(np.float64(X)), 3e-7),
        (arithmetic.logarithm(np.exp(X)), np.log(np.float64(np.exp(X))), 3e-7),
        (arithmetic.sine(np.abs(10 * X), 0), np.sin(np.float64(np.abs(10 * X))), 2e-5),
        (arithmetic.sine(np.abs(10 * X), 1), np.cos(np.float64(np.abs(10 * X))), 2e-5),
        (arithmetic.sigmoid(X), 1 / (1 + np.exp(-np.float64(X))), 3e-7),
        (arithmetic.log_total(X[None] + 100, 64), [100 + np.log(np.exp(np.float64(X)).sum())], 1e-6),
    ],
    ids=["exponential", "logarithm", "sine", "cosine", "sigmoid", "log_total"],
)
def test_functions(found, wanted, tolerance):
    assert (np.abs(found - wanted) <= tolerance * np.maximum(np.abs(wanted), 1)).all()
    assert found.dtype == np.float32


def test_integers_are_exact_and_halves_go_away_from_zero():
    assert arithmetic.rounded(np.float32([-2.5, -0.5, 0.5, 1.49])).tolist() == [-3, -1, 1, 1]
    integers, step = arithmetic.to_operand(np.float32([[1, -2], [0, 0]]))
    assert integers.tolist() == [[16384, -32767], [0, 0]] and step[1] == 0
