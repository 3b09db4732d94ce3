"""Names beside lines and points, in place of a legend."""

import itertools
import math
import textwrap

import numpy as np
from matplotlib import transforms

from lwt.report import style

LONGEST = 22  # letters of a name in one line
DISTANCES = (7, 16, 28, 44)  # of a name from its point, in points of 1/72 inch


def put(axes, ends, *, gap=0.055):
    """Names lines on the right of the axes, at the height of their last points, moved apart where they would touch.

    Args:
        axes: with its scales set; its limits stay as they are.
        ends: ``{name: (x, y, colour)}``, the last point of each line.
        gap: the least distance between two names, as a share of the height of the axes.
    """
    style.from_zero(axes)
    axes.figure.canvas.draw()
    to_axes = axes.transData + axes.transAxes.inverted()
    shares = {name: to_axes.transform(end[:2])[1] for name, end in ends.items()}
    order = sorted(ends, key=shares.get)
    for name, height in zip(order, _apart([shares[name] for name in order], gap)):
        *point, color = ends[name]
        axes.annotate(
            textwrap.fill(name, LONGEST),
            xy=point,
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=10,
            color=color,
            arrowprops=dict(arrowstyle="-", relpos=(0, 0.5), color=color, linewidth=0.6, alpha=0.6),
            annotation_clip=False,
        )


def beside(axes, points, *, size=9.5):
    """Names points, each name as near as it can be without covering another name or another point.

    Args:
        axes: with its limits set, and all lines drawn.
        points: ``{name: (x, y, colour)}``; names are placed in this order.
        size: of the letters.
    """
    style.from_zero(axes)
    axes.figure.canvas.draw()
    room, taken = axes.get_window_extent(), []
    lines = [line.get_transform().transform(line.get_xydata()) for line in axes.lines]
    dots = [dot for line in lines for dot in line]
    between = [way for line in lines for ends in itertools.pairwise(line) for way in np.linspace(*ends, 30)]
    for name, (x, y, color) in points.items():
        at = axes.transData.transform((x, y))
        look = dict(textcoords="offset points", fontsize=size, color=color, annotation_clip=False)
        text = axes.annotate(name, (x, y), xytext=(0, 0), **look)
        text.set_in_layout(False)
        other = [dot for dot in dots if math.dist(dot, at) > 1]
        places = list(_places(at, text.get_window_extent(), axes.figure.dpi / 72))
        distance, box = min(
            places, key=lambda place, other=other: place[0] + _cost(place[1], taken, other, between, room)
        )
        taken.append(box)
        text.set_position((np.array([box.x0, box.y0]) - at) * 72 / axes.figure.dpi)
        if distance > DISTANCES[0]:
            nearest = np.clip(at, [box.x0, box.y0], [box.x1, box.y1])
            line = axes.transData.inverted().transform([at, nearest])
            axes.plot(*line.T, color=color, linewidth=0.6, alpha=0.6, marker="")


def _cost(box, taken, dots, between, room):
    """How bad it is to put a name into `box`: it covers names, points or lines, or lies outside the axes."""
    box = box.padded(2)
    covered = 4 * sum(box.overlaps(one) for one in taken) + sum(box.contains(*dot) for dot in dots)
    outside = not (room.x0 < box.x0 and box.x1 < room.x1 and room.y0 < box.y0 and box.y1 < room.y1)
    return 100 * (covered + 3 * outside) + 40 * any(box.contains(*dot) for dot in between)


def _places(at, box, unit):
    """``(distance, box)`` of a name around the pixel `at`; `unit` pixels are a point."""
    sides = [(1, 0), (-1, 0), *itertools.product((0, 1, -1), (1, -1))]
    for distance, (right, up) in itertools.product(DISTANCES, sides):
        left = at[0] + right * distance * unit - (1 - right) / 2 * box.width
        low = at[1] + up * distance * unit - (1 - up) / 2 * box.height
        yield distance, transforms.Bbox.from_bounds(left, low, box.width, box.height)


def _apart(heights, gap):
    """Ascending heights in [0, 1], moved as little as needed so that neighbours are `gap` apart, if they have room."""
    moved = list(heights)
    for _ in range(200):
        for i in range(len(moved) - 1):
            missing = max(0.0, gap - (moved[i + 1] - moved[i])) / 2
            moved[i], moved[i + 1] = moved[i] - missing, moved[i + 1] + missing
        moved = [min(max(height, 0.0), 1.0) for height in moved]
    return moved
