"""Exponents and crossings of curves that are known, and what is drawn of them."""

import math

import pytest

from lwt.report import scaling


def test_the_exponent_is_that_of_the_upper_half():
    points = {n: 5.0 if n <= 1024 else 3e-3 * n**1.5 for n in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)}
    assert scaling.exponent(points) == pytest.approx(1.5)
    assert scaling.exponent({n: 7 * n**2 for n in (4, 8, 16)}) == pytest.approx(2)
    assert scaling.exponent({4: 1.0}) is scaling.exponent({}) is None


def test_the_crossing_of_two_power_laws():
    lengths = (16, 32, 64, 128, 256)
    other = {n: n**2 for n in lengths}
    assert scaling.crossing({n: 50 * n for n in (*lengths, 512)}, other) == pytest.approx(50)
    assert scaling.crossing({n: 10 * n for n in lengths}, other) == 0  # costs less at every length
    assert scaling.crossing({n: 300 * n for n in lengths}, other) is None
    assert scaling.crossing({}, other) is None
    last = 32 * 2 ** (math.log(2000 / 32**2) / math.log(2000 * 64**2 / 32**2))  # of two crossings
    assert scaling.crossing({16: 1.0, 32: 2e3, 64: 1.0}, other) == pytest.approx(last)


def test_costs_at_three_lengths(tmp_path):
    lengths = (128, 256, 512, 1024, 2048)
    series = {"plain": {n: n**2 / 100 for n in lengths}, "ours": {n: n for n in lengths}, "short": {256: 3.0}}
    look = dict(unit="ms", what="time", plain="plain", names={"plain": "softmax"})
    drawn = scaling.by_length(series, tmp_path / "x.png", **look)
    assert drawn.get_suptitle() == "At 2,048 positions, ours takes 5% of the time of softmax"
    assert [axes.get_title("left") for axes in drawn.axes] == ["n = 256 (ms)", "n = 512 (ms)", "n = 2,048 (ms)"]
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == ["ours", "softmax", "short"]
    bars = [[bar.get_width() for bar in axes.patches] for axes in drawn.axes]
    assert bars == [[256, 655.36, 3], [512, 2621.44], [2048, 41943.04]]
