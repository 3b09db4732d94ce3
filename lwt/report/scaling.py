"""How a cost grows with the length: exponents, crossings, and a picture."""

import math
import statistics

from lwt.report import plots


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


def by_length(series, path, *, unit, what, plain, names, digits=1):
    """Draws a cost at a short, a middle and the longest length, a line for each variant, the cheapest first.

    Args:
        series: ``{variant: {n: cost}}``.
        path: of the PNG.
        unit: of the cost.
        what: the cost: "time".
        plain: the variant that the others are compared with.
        names: ``{variant: what people call it}``; others keep their name.
        digits: after the point.
    """
    lengths = sorted({n for points in series.values() for n in points})
    last = lengths[-1]
    shown = (lengths[len(lengths) // 4], lengths[len(lengths) // 2], last)
    order = sorted(series, key=lambda name: series[name].get(last, math.inf))
    said = {name: names.get(name, name) for name in order}
    lines = {said[name]: {n: series[name][n] for n in shown if n in series[name]} for name in order}
    title = f"{what.capitalize()} of forward and backward at three lengths n"
    if last in series.get(plain, {}) and order[0] != plain:
        share = series[order[0]][last] / series[plain][last]
        title = f"At {last:,} positions, {said[order[0]]} takes {share:.0%} of the {what} of {said[plain]}"
    columns = {n: (f"n = {n:,} ({unit})", digits) for n in dict.fromkeys(shown)}
    return plots.rows(lines, path, columns=columns, title=title, faded=[said.get(plain)])
