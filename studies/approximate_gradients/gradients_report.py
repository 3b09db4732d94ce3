"""The page on approximate gradients, made from its ``results.json``: tables, pictures and sentences."""

import math

from lwt.attention.parts import approximation_check
from lwt.report import line_names, pages, results, scaling, style

ERROR = "relative_error_d_q"
REFERENCE = {  # largest logit -> the error for degree 1 to 5 in another computation, whose draw is not known
    0.38: (4.5e-3, 3.7e-4, 2.0e-5, 1.2e-6, 5.1e-8),
    1.54: (7.5e-2, 2.3e-2, 4.8e-3, 1.1e-3, 1.8e-4),
    5.68: (0.68, 0.46, 0.31, 0.20, 0.12),
}
COSTS = {"milliseconds": ("time", "ms, forward and backward"), "temporary_megabytes": ("memory", "MB of temporaries")}
ABOUT_ERRORS = """\
A cell has two relative errors of dQ: ours, the mean over the draws, / that of a computation with other code and another
draw. Arrays have 256 positions of width 8, standard normal, in float64; queries and keys are scaled together until the
largest logit is the one given.
"""
ABOUT_COST = """\
Forward and backward of eight heads for one text of n positions, in float32. "degree g" is approximate in both
directions; with an exact forward pass, time still grows with n², and memory does not. "softmax" keeps the whole array
of weights, which is too large for the longest texts. Exponents are fitted to the upper half of a row's lengths; the
lengths in the sentences are interpolated.
"""


def errors_of(rows):
    """``{degree: {largest logit: mean error}}``, in order."""
    rows = [row for row in rows if row["metric"] == ERROR]
    table = results.cells(rows, index="degree", columns="largest")
    return {degree: {x: table[degree][x].mean for x in sorted(table[degree])} for degree in sorted(table)}


def costs_of(rows, metric, *, width):
    """``{variant: {length: cost}}`` of one head width."""
    rows = [row for row in rows if row["metric"] == metric and row["overrides"]["head_width"] == width]
    table = results.cells(rows, index="variant", columns="length")
    return {name: {n: line[n].mean for n in sorted(line)} for name, line in table.items()}


def reach(points, tolerance=approximation_check.TOLERANCE):
    """The largest logit up to which the error stays within the tolerance, on straight lines between logarithms.

    Args:
        points: ``{largest logit: error}``, in order.

    Returns:
        None if it always stays, or never does.
    """
    pairs = list(points.items())
    for (x, error), (next_x, next_error) in zip(pairs, pairs[1:]):
        if error <= tolerance < next_error:
            share = math.log(tolerance / error) / math.log(next_error / error)
            return x * (next_x / x) ** share
    return None


def write(out):
    """Writes README.md and the pictures beside the ``results.json`` of the folder `out`; returns the names.

    Raises:
        lwt.errors.DataError: the folder has no such file.
    """
    rows = results.load(f"{out}/results.json")
    commands = dict.fromkeys(row["command"] for row in rows)
    page = pages.Page(out, "Approximate gradients of attention", command_line="\n    ".join(commands))
    page.add(f"Measured on {', '.join(sorted({row['hardware'] for row in rows}))}.")
    if errors := errors_of(rows):
        _add_errors(page, errors)
    widths = sorted({row["overrides"]["head_width"] for row in rows if row["metric"] in COSTS})
    page.add(*(["## Cost", ABOUT_COST] if widths else []))
    for width in widths:
        _add_costs(page, rows, width=width)
    return page.write()


def _add_errors(page, errors):
    header = ["degree", *(f"largest logit {x}" for x in REFERENCE)]
    body = []
    for degree, points in errors.items():
        pairs = [(points.get(x), line[degree - 1]) for x, line in REFERENCE.items()]
        body.append([str(degree), *(f"{_short(ours)} / {_short(theirs)}" for ours, theirs in pairs)])
    reaches = {degree: reach(points) for degree, points in errors.items()}
    percent = f"{100 * approximation_check.TOLERANCE:g} %"
    found = [
        f"- Degree {degree}: the error stays within {percent} up to a largest logit of {x:.2f} (the remainder alone "
        f"guarantees {approximation_check.threshold(degree):.2f})."
        for degree, x in reaches.items()
        if x is not None
    ]
    page.add("## Error", ABOUT_ERRORS, results.markdown(header, body), "\n".join(found))
    _draw_errors(errors, page.picture("errors.png", "relative error over the largest logit"))


def _add_costs(page, rows, *, width):
    page.add(f"### Heads of width {width}")
    for metric, (file, label) in COSTS.items():
        series = costs_of(rows, metric, width=width)
        lengths = sorted({n for points in series.values() for n in points})
        body = []
        for name, points in series.items():
            power = scaling.exponent(points)
            cells = [f"{points[n]:,.1f}" if n in points else "–" for n in lengths]
            body.append([name, *cells, "–" if power is None else f"{power:.2f}"])
        header = [label, *(f"n = {n}" for n in lengths), "exponent"]
        page.add(results.markdown(header, body))
        look = dict(unit=label.split()[0].rstrip(","), what=file, plain="softmax in blocks", names={})
        scaling.by_length(series, page.picture(f"{file}_{width}.png", label), **look)
        if metric == "milliseconds":
            page.add("\n".join(_break_even(series)))


def _break_even(series):
    """List items that say from which length on each degree is faster than exact attention in blocks."""
    for name, points in series.items():
        if name.startswith("degree"):
            n = scaling.crossing(points, series["softmax in blocks"])
            where = "at no length measured" if n is None else f"from n = {n:.0f} on" if n else "at all lengths measured"
            yield f"- {name}: faster than softmax in blocks {where}."


def _draw_errors(errors, path):
    title = "Polynomials of higher degree approximate the gradients up to larger logits"
    with style.drawing(path, title) as (drawn, axes):
        ends = {}
        for i, (degree, points) in enumerate(errors.items()):
            axes.plot(*zip(*points.items()), **style.look(i))
            ends[f"degree {degree}"] = (*min(points.items()), style.look(i)["color"])
        axes.axhline(approximation_check.TOLERANCE, color="#333333", linestyle="--", linewidth=1.2)
        axes.set(xscale="log", yscale="log", xlabel="largest logit", ylabel="relative error of dQ")
        axes.margins(x=0.1, y=0.1)
        tolerated = f"{100 * approximation_check.TOLERANCE:g} %, what is tolerated"
        axes.annotate(
            tolerated, (axes.get_xlim()[0], approximation_check.TOLERANCE), xytext=(4, 4), textcoords="offset points"
        )
        line_names.beside(axes, ends)
    return drawn


def _short(value):
    return "–" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.1e}"
