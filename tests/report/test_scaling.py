"""Exponents and crossings of curves that are known, and what is drawn of them."""

import math

import pytest
from PIL import Image

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


def test_against_length(tmp_path):
    series = {f"a{i}": {n: n / 128 * (1 + i) for n in (128, 256, 512)} for i in range(17)} | {"one": {128: 3.0}}
    drawn = scaling.against_length(series, tmp_path / "x.png", label="ms")
    lines = {line.get_label(): line for line in drawn.axes[0].lines}
    assert lines["a3: n^1.00"].get_xydata().tolist() == [[128, 4], [256, 8], [512, 16]] and "one" in lines
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines.values()}
    assert len(looks) == len(lines) == 18
    assert [tick.get_text() for tick in drawn.axes[0].get_xticklabels()] == ["128", "256", "512"]
    with Image.open(tmp_path / "x.png") as image:
        assert image.size == (9.6 * 150, 4 * 150)
