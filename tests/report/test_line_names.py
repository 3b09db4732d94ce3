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


def test_names_beside_points_cover_nothing():
    figure = figures.Figure()
    axes = figure.subplots()
    points = {f"point {i}": (1 + 0.01 * i, 1 + 0.02 * (i % 2), "black") for i in range(6)}
    axes.plot(*zip(*[point[:2] for point in points.values()]), "o", linestyle="none")
    axes.set(xlim=(0, 2), ylim=(0.5, 2))
    line_names.beside(axes, points)
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == list(points)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    dots = axes.transData.transform([point[:2] for point in points.values()])
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
