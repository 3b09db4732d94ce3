"""The interval of an accuracy, which stays within 0 and 100 % and is not centred on the accuracy."""

import numpy as np
import pytest

from lwt.classify import figures

# Wilson 1927, by hand: centre (p + z²/2n) / (1 + z²/n), z = 1.96
INTERVALS = [(140, 135, "96.4 (91.9 to 98.5)"), (50, 50, "100.0 (92.9 to 100.0)"), (50, 0, "0.0 (0.0 to 7.1)")]


@pytest.mark.parametrize(("count", "right", "cell"), INTERVALS)
def test_the_accuracy_has_its_interval(count, right, cell):
    labels = np.zeros(count, int)
    shares = np.tile([0.9, 0.1], (count, 1))
    shares[right:] = [0.1, 0.9]
    model = figures.Model("a", "", shares, seconds=1, parameters=2, bytes=3)
    assert figures.HEADER[1] == "accuracy, %"
    assert next(iter(figures.lines([model], labels)))[1] == cell
