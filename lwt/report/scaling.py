"""How a cost grows with the length: exponents, crossings, and a picture."""

import math
import statistics

from lwt.report import style


def exponent(points):
    """p of the power law ``c·nᵖ`` that fits the upper half of ``{n: cost}`` best (least squares of the logarithms).

    None for fewer than two lengths.
    """
    upper = sorted(points)[len(points) // 2 :]
    if len(upper) < 2:
        return None
    return statistics.linear_regression([math.log(n) for n in upper], [math.log(points[n]) for n in upper]).slope


def crossing(ours, other):
    """The length from which on `ours` costs less than `other`, interpolated between lengths in logarithms.

    Args:
        ours, other: ``{n: cost}``; lengths that only one of them has are left out.

    Returns:
        0.0 if it costs less at every length, None if it does not at the longest.
    """
    gaps = [(n, math.log(ours[n] / other[n])) for n in sorted(ours.keys() & other.keys())]
    if not gaps or gaps[-1][1] >= 0:
        return None
    dearer = [i for i, (_, gap) in enumerate(gaps) if gap >= 0]
    if not dearer:
        return 0.0
    (n, gap), (next_n, next_gap) = gaps[dearer[-1]], gaps[dearer[-1] + 1]
    return n * (next_n / n) ** (gap / (gap - next_gap))


def against_length(series, path, *, label, title=""):
    """Draws a cost over the length, both logarithmic, with each variant's exponent; returns the Figure.

    Args:
        series: ``{variant: {n: cost}}``.
        path: of the PNG.
        label: of the vertical axis, with the unit.
    """
    with style.drawing(path, title, width=9.6) as (drawn, axes):
        for i, (name, points) in enumerate(series.items()):
            power = exponent(points)
            shown = name if power is None else f"{name}: n^{power:.2f}"
            axes.plot(*zip(*sorted(points.items())), label=shown, linewidth=1.4, **look(i))
        every = sorted({n for points in series.values() for n in points})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(every, [str(n) for n in every])
        axes.minorticks_off()
        axes.set(xlabel="length n (logarithmic)", ylabel=label)
        drawn.legend(loc="outside right upper")
    return drawn


def look(i):
    """Colour, mark and line of the i-th of many series."""
    colors, lines = len(style.COLORS), ("-", "--", ":")
    look = {"color": style.COLORS[i % colors], "marker": style.MARKERS[(i + i // colors) % len(style.MARKERS)]}
    return look | {"linestyle": lines[i // colors % len(lines)]}
