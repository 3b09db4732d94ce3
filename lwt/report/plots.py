"""Plots: learning curves, accuracy by rank, fronts, grouped bars. All functions save a PNG and return its Figure."""

import json
import pathlib
import statistics

from matplotlib import lines as plain
from matplotlib import ticker

from lwt import errors
from lwt.report import line_names, style


def learning_curves(runs, path, *, figure="loss", label="loss (nats a token)", title="", log_y=False):
    """Training (thin) and evaluation (with marks) over the steps, one colour a run.

    Args:
        runs: ``{name: workdir}``; each holds a metrics.jsonl.
        path: of the PNG.
        figure: what is shown: the rows' ``train/FIGURE`` and ``validation/FIGURE``.
        label: of the vertical axis, with the unit.

    Raises:
        lwt.errors.DataError: a workdir has no metrics.jsonl, or its rows hold no such figure.
    """
    with style.drawing(path, title) as (drawn, axes):
        ends = {}
        for i, (name, workdir) in enumerate(runs.items()):
            train, validation = (read(workdir, f"{part}/{figure}") for part in ("train", "validation"))
            if not train[0] and not validation[0]:
                raise errors.DataError(f"{workdir}/metrics.jsonl has neither train/{figure} nor validation/{figure}")
            look = style.look(i)
            if train[0]:
                axes.plot(*train, color=look["color"], linewidth=1.1, alpha=0.55)
            if validation[0]:
                axes.plot(*validation, **look)
            ends[name] = (*(points[-1] for points in (validation if validation[0] else train)), look["color"])
        axes.set_xlabel("optimizer steps (thin line: training, marks: validation)")
        axes.set_ylabel(label)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(style.thousands))
        if log_y:
            axes.set_yscale("log")
        if len(runs) > 1:
            line_names.put(axes, ends)
    return drawn


def read(workdir, name):
    """``(steps, values)`` of one figure in a workdir's metrics.jsonl; rows without it, or with null, are left out."""
    path = pathlib.Path(workdir) / "metrics.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise errors.DataError(f"{path} cannot be read: {error.strerror}; training writes it") from error
    except ValueError as error:
        raise errors.DataError(f"{path} is not UTF-8: {error}") from error
    points = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if row.get(name) is not None:
                if not isinstance(row["step"], int) or not isinstance(row[name], int | float):
                    raise ValueError(f"{name}={row[name]!r} at step {row['step']!r}")
                points.append((row["step"], row[name]))
        except (ValueError, KeyError, AttributeError, RecursionError) as error:
            if number < len(lines):  # the last line may be in the middle of being written
                raise errors.DataError(f"{path}:{number} is not a row of figures: {error}") from error
    return [step for step, _ in points], [value for _, value in points]


def ranks(series, path, *, parameters=None, paper=None, label="accuracy (%)", title=""):
    """A figure by rank, and by trained parameters if they are given: means over seeds, bars of ± one deviation.

    Args:
        series: ``{method: {rank: values of all seeds}}``.
        path: of the PNG.
        parameters: ``{method: {rank: trained parameters}}``, or None.
        paper: ``{rank: value}`` for a dashed line, or None.
        label: of the vertical axes, with the unit.
    """
    with style.drawing(path, title, panels=2 if parameters else 1) as (drawn, axes):
        left, *right = panels = axes if parameters else [axes]
        for panel in panels:
            ends = {}
            for i, (name, by_rank) in enumerate(series.items()):
                order = sorted(by_rank)
                places = order if panel is left else [parameters[name][rank] for rank in order]
                means = [statistics.fmean(by_rank[rank]) for rank in order]
                spread = [statistics.stdev(by_rank[rank]) if len(by_rank[rank]) > 1 else 0.0 for rank in order]
                look = style.look(i)
                panel.errorbar(places, means, spread, **look, capsize=3, elinewidth=1.2)
                ends[name] = (places[-1], means[-1], look["color"])
        if paper:
            order = sorted(paper)
            left.plot(order, [paper[rank] for rank in order], "--", color="#333333", linewidth=1.3)
            left.annotate("paper", (order[0], paper[order[0]]), xytext=(-6, -3), textcoords="offset points", ha="right")
        every = sorted({rank for by_rank in [*series.values(), paper or {}] for rank in by_rank})
        left.set_xscale("log", base=2)
        left.set_xticks(every, [str(rank) for rank in every])
        left.minorticks_off()
        left.set(xlabel="rank", ylabel=label)
        for panel in right:
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 3)))
            panel.xaxis.set_major_formatter(ticker.FuncFormatter(style.thousands))
            panel.minorticks_off()
            panel.set(xlabel="trained parameters")
        line_names.put(panels[-1], ends, gap=0.12 if right else 0.055)
    return drawn


def by_rate(curves, path, *, label, lower=False, title=""):
    """A figure over the learning rate, which has a logarithmic axis, with the names beside the best points.

    Args:
        curves: ``{method: {rate: value}}``.
        path: of the PNG.
        label: of the vertical axis, with the unit.
        lower: whether low values are good.
    """
    with style.drawing(path, title) as (drawn, axes):
        for i, curve in enumerate(curves.values()):
            axes.plot(*zip(*sorted(curve.items())), **style.look(i))
        style.log_x(axes, "learning rate")
        axes.set_ylabel(label)
        axes.margins(y=0.12)
        best = min if lower else max
        at = {name: best(curve.items(), key=lambda point: point[1]) for name, curve in curves.items()}
        line_names.beside(axes, {name: (*at[name], style.look(i)["color"]) for i, name in enumerate(curves)})
    return drawn


def rows(lines, path, *, columns, title="", dots=(), faded=()):
    """A line for each name, and side by side a panel for each figure: bars from zero, or points, with their values.

    Args:
        lines: ``{name: {column: value, or a list of values, or {series: the same}}}``: of a list, the mean and ± one
            standard deviation. A column may be missing.
        path: of the PNG.
        columns: ``{column: (heading with the unit, digits after the point)}``.
        dots: the columns that are drawn as points; their axes need not begin at zero.
        faded: names of the lines that are only there to compare with.
    """
    cells = [line[column] for line in lines.values() for column in columns if column in line]
    series = list(dict.fromkeys(name for cell in cells if isinstance(cell, dict) for name in cell))
    step = 0.8 / max(1, len(series))
    height = 1.0 + len(lines) * max(0.27, 0.2 * len(series)) + 0.3 * bool(series)
    spreads = 0
    with style.drawing(path, title, panels=len(columns), height=height) as (drawn, panels):
        for axes, (column, (heading, digits)) in zip(drawn.axes, columns.items(), strict=True):
            for at, (name, line) in enumerate(lines.items()):
                cell = line.get(column, {})
                for own, values in (cell if isinstance(cell, dict) else {"": cell}).items():
                    i = series.index(own) if own else 0
                    values = values if isinstance(values, list | tuple) else [values]
                    mean, spread = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
                    spreads += spread is not None
                    color = "#9a9a9a" if name in faded else style.COLORS[i]
                    place = at + (i - (len(cell) - 1) / 2) * step if own else at
                    look = dict(xerr=spread, ecolor="#333333", capsize=2.5)
                    if column in dots:
                        axes.errorbar(mean, place, color=color, marker=style.MARKERS[i], linestyle="none", **look)
                    else:
                        axes.barh(place, mean, 0.92 * step, color=color, error_kw={"elinewidth": 1.2}, **look)
                    axes.annotate(
                        f"{mean:,.{digits}f}", (mean + (spread or 0), place), xytext=(5, 0), textcoords="offset points",
                        va="center", fontsize=9.5, color="#333333",
                    )  # fmt: skip
            axes.set_title(heading, loc="left", fontsize=10.5, color="#333333")
            axes.margins(x=0.35 if column in dots else 0.3)
            axes.set_ylim(len(lines) - 0.4, -0.6)
            axes.grid(False, axis="y")
            axes.tick_params(axis="y", length=0)
            if column not in dots:
                axes.set_xlim(left=0)
                axes.spines["bottom"].set_visible(False)
                axes.xaxis.set_visible(False)
        drawn.axes[0].set_yticks(range(len(lines)), list(lines))
        if spreads:
            drawn.supxlabel("whiskers: ± one standard deviation over the seeds", x=0.99, ha="right", fontsize=9)
        if series:
            shown = [plain.Line2D([], [], **style.look(i), linestyle="none") for i in range(len(series))]
            drawn.legend(shown, series, loc="outside lower left", ncols=len(series))
    return drawn


def front(points):
    """The names of ``{name: (cost, quality)}`` that no other beats at the same cost or less, the cheapest first."""
    found = []
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if not found or points[name][1] > points[found[-1]][1]:
            found.append(name)
    return found


def draw_front(axes, points, *, best):
    """Draws ``{name: (x, y)}`` as points, and the `best` of them, from `front`, as steps; see `line_names.beside`."""
    axes.plot(*zip(*points.values(), strict=True), linestyle="none", marker="o", color="#c4c4c4")
    steps = tuple(zip(*(points[name] for name in best), strict=True))
    axes.plot(*steps, drawstyle="steps-post", color="#bbbbbb", linewidth=1.2)
    axes.plot(*steps, linestyle="none", **style.look(0))
    axes.margins(x=0.1, y=0.12)


def bars(groups, path, *, label, title="", digits=1):
    """Grouped bars with their values above.

    Args:
        groups: ``{group: {bar: value, or a list of values}}``: of a list, the mean and ± one standard deviation.
        path: of the PNG.
        label: of the vertical axis, with the unit.
        digits: after the point of the values above the bars.
    """
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / len(names)
    with style.drawing(path, title, width=max(6.4, 0.5 * len(groups) * len(names) + 2)) as (drawn, axes):
        for i, name in enumerate(names):
            places, means, spread = [], [], []
            for at, group in enumerate(groups.values()):
                if name in group:
                    values = group[name] if isinstance(group[name], list | tuple) else [group[name]]
                    places.append(at + (i - (len(names) - 1) / 2) * width)
                    means.append(statistics.fmean(values))
                    spread.append(statistics.stdev(values) if len(values) > 1 else 0.0)
            drawn_bars = axes.bar(
                places, means, 0.92 * width, yerr=spread if any(spread) else None, label=name,
                color=style.look(i)["color"], error_kw={"elinewidth": 1.2, "capsize": 3, "ecolor": "#333333"},
            )  # fmt: skip
            axes.bar_label(drawn_bars, fmt=f"%.{digits}f", fontsize=8, color="#333333", padding=2)
        axes.set_xticks(range(len(groups)), list(groups))
        axes.grid(False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel(label)
        axes.margins(y=0.12)
        if len(names) > 1:  # above the bars: inside it would cover some
            axes.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.1, ncols=4)
    return drawn
