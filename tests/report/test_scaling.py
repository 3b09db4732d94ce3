"""Exponents and crossings of curves that are known, and what is drawn of them."""

import math
import statistics

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


def test_against_cost(tmp_path):
    panels = {
        "A": ("BLEU", {"x": ([1.0, 3.0], [10.0, 20.0]), "y": ([5.0], [7.0])}),
        "B": ("accuracy", {"y": ([2.0], [0.5])}),
    }
    drawn = scaling.against_cost(panels, tmp_path / "x.png", cost_label="ms")
    left, right = drawn.axes
    marks = {found.get_label(): found for found in left.containers}
    line, _, (across, up) = marks["x"]
    assert line.get_xydata().tolist() == [[2, 15]]
    assert across.get_segments()[0][:, 0].tolist() == pytest.approx([2 - statistics.stdev([1, 3]), 2 + 2**0.5])
    assert up.get_segments()[0][:, 1].tolist() == pytest.approx([15 - 50**0.5, 15 + 50**0.5])
    assert right.containers[0][0].get_color() == marks["y"][0].get_color() != line.get_color()
    assert (left.get_title("left"), left.get_ylabel(), right.get_ylabel()) == ("A", "BLEU", "accuracy")
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["x", "y"]
