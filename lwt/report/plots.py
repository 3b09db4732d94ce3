"""Plots: learning curves, accuracy by rank, fronts, grouped bars. All functions save a PNG and return its Figure."""

import json
import math
import pathlib
import statistics

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
        for i, (name, workdir) in enumerate(runs.items()):
            train, validation = (read(workdir, f"{part}/{figure}") for part in ("train", "validation"))
            if not train[0] and not validation[0]:
                raise errors.DataError(f"{workdir}/metrics.jsonl has neither train/{figure} nor validation/{figure}")
            color, last = style.COLORS[i % len(style.COLORS)], f"{name}, " if len(runs) > 1 else ""
            if train[0]:
                axes.plot(*train, color=color, linewidth=1.1, alpha=0.55, label=f"{last}training")
            if validation[0]:
                axes.plot(*validation, color=color, marker=style.look(i)["marker"], label=f"{last}validation")
        axes.set_xlabel("optimizer steps")
        axes.set_ylabel(label)
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(style.thousands))
        if log_y:
            axes.set_yscale("log")
        _legend(axes)
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


def ranks(series, path, *, parameters, paper=None, label="accuracy (%)", title=""):
    """A figure by rank, and by trained parameters: means over seeds, bars of ± one standard deviation.

    Args:
        series: ``{method: {rank: values of all seeds}}``.
        path: of the PNG.
        parameters: ``{method: {rank: trained parameters}}``.
        paper: ``{rank: value}`` for a dashed line, or None.
        label: of the vertical axes, with the unit.
    """
    with style.drawing(path, title, panels=2, width=10.4) as (drawn, (left, right)):
        ends = {}
        for i, (name, by_rank) in enumerate(series.items()):
            order = sorted(by_rank)
            means = [statistics.fmean(by_rank[rank]) for rank in order]
            spread = [statistics.stdev(by_rank[rank]) if len(by_rank[rank]) > 1 else 0.0 for rank in order]
            look = style.look(i) | dict(capsize=3, elinewidth=1.2)
            left.errorbar(order, means, spread, **look)
            right.errorbar([parameters[name][rank] for rank in order], means, spread, **look)
            ends[name] = (parameters[name][order[-1]], means[-1], look["color"])
        if paper:
            order = sorted(paper)
            left.plot(order, [paper[rank] for rank in order], "--", color="#333333", linewidth=1.3)
            left.annotate("paper", (order[0], paper[order[0]]), xytext=(-6, -3), textcoords="offset points", ha="right")
        every = sorted({rank for by_rank in [*series.values(), paper or {}] for rank in by_rank})
        left.set_xscale("log", base=2)
        left.set_xticks(every, [str(rank) for rank in every])
        left.minorticks_off()
        left.set(xlabel="rank (logarithmic)", ylabel=label)
        right.set_xscale("log")
        right.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 2, 5)))
        right.xaxis.set_major_formatter(ticker.FuncFormatter(style.thousands))
        right.minorticks_off()
        right.set(xlabel="trained parameters (logarithmic)")
        line_names.put(right, ends)
    return drawn


def by_rate(curves, path, *, label, title=""):
    """A figure over the learning rate, which has a logarithmic axis, with the names beside the lines.

    Args:
        curves: ``{method: {rate: value}}``.
        path: of the PNG.
        label: of the vertical axis, with the unit.
    """
    with style.drawing(path, title, width=7.6) as (drawn, axes):
        ends = {}
        for i, (name, curve) in enumerate(curves.items()):
            rates = sorted(curve)
            look = style.look(i)
            axes.plot(rates, [curve[rate] for rate in rates], **look)
            ends[name] = (rates[-1], curve[rates[-1]], look["color"])
        style.log_x(axes, "learning rate")
        axes.set_ylabel(label)
        line_names.put(axes, ends)
    return drawn


def fronts(lines, path, *, x, label, title=""):
    """Points of many methods, with a line through those of each; methods on the front of the best are in colour.

    A point is on the front if none further left is as high.

    Args:
        lines: ``{method: [(x, y), ...]}``, sorted by x.
        path: of the PNG.
        x, label: of the axes, with their units; the horizontal one is logarithmic.
    """
    best, front = -math.inf, []
    for place, height, name in sorted((*point, name) for name, points in lines.items() for point in points):
        if height > best:
            best, front = height, [*front, (place, height, name)]
    colors = dict(zip(dict.fromkeys(name for *_, name in front), style.COLORS * 3))
    with style.drawing(path, title, width=8.4, height=5.6) as (drawn, axes):
        axes.step(*zip(*[point[:2] for point in front]), where="post", color="#bbbbbb", linewidth=5, alpha=0.5)
        ends = {}
        for i, (name, points) in enumerate(lines.items()):
            color = colors.get(name, "#9a9a9a")
            look = style.look(i) | dict(color=color, linewidth=1.2, zorder=3 if name in colors else 2)
            axes.plot(*zip(*points), **look)
            ends[name] = (*points[-1], color)
        style.log_x(axes, x)
        axes.set_ylabel(label)
        line_names.put(axes, ends, gap=0.042)
    return drawn


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


def _legend(axes):
    """The legend, in two columns where it is long; it finds its own place."""
    count = len(axes.get_legend_handles_labels()[1])
    axes.legend(ncols=1 if count <= 6 else math.ceil(count / 6))
