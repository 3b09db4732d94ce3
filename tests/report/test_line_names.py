"""Names beside lines: at the height of the last points, and apart from each other."""

import pytest
from matplotlib import figure as figures

from lwt.report import line_names


@pytest.mark.parametrize("scale, ends", [("linear", (0.5, 0.5, 0.5, 0.9)), ("log", (1.0, 1.0, 0.1, 0.001))])
def test_names_do_not_touch(scale, ends):
    axes = figures.Figure().subplots()
    axes.set_yscale(scale)
    for end in ends:
        axes.plot([1, 2], [ends[0], end])
    limits = axes.get_ylim()
    line_names.put(axes, {f"line {i}": (2, end, "black") for i, end in enumerate(ends)}, gap=0.1)
    heights = [text.get_position()[1] for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == sorted(
        (f"line {i}" for i in range(4)), key=lambda name: ends[int(name[-1])]
    )
    assert all(high - low > 0.099 for low, high in zip(heights, heights[1:]))
    assert 0 <= heights[0] and heights[-1] <= 1 and axes.get_ylim() == limits


def test_a_name_alone_stands_at_its_point():
    axes = figures.Figure().subplots()
    axes.plot([0, 1], [0, 1])
    axes.set_ylim(0, 2)
    line_names.put(axes, {"a": (1, 1, "black")})
    assert axes.texts[0].get_position()[1] == pytest.approx(0.5)
