"""Pareto fronts: of models as points of quality, bytes and time, those that no other beats."""

import math

from lwt.inspect import measuring
from lwt.report import results, style

COSTS = {"bytes": "bytes", "milliseconds": "milliseconds of one record alone"}  # a cost -> the label of its axis
MEASURED = ("quality", "bytes", "milliseconds", "rate")  # a row of results for each


def front(points, cost):
    """The points that no other beats at the same cost or less, the cheapest first.

    Args:
        points: of one task.
        cost: a key of `COSTS`.
    """
    found, best = [], -math.inf
    for point in sorted(points, key=lambda p: (getattr(p, cost), -p.rank)):
        if point.rank > best:
            found, best = [*found, point], point.rank
    return found


def table(points):
    """The points of one task as Markdown; ▪ marks those on a front."""
    best = {cost: front(points, cost) for cost in COSTS}

    def mark(p, cost):
        return " ▪" if p in best[cost] else ""

    header = ["model", "made by", points[0].metric, "runs", "bytes", "ms alone", "records a second in batches"]
    body = [
        [p.name, p.made, f"{p.quality:.4g}", str(p.seeds), f"{p.bytes:,}{mark(p, 'bytes')}",
         f"{p.milliseconds:.2f}{mark(p, 'milliseconds')}", f"{p.rate:,.0f}"]
        for p in points
    ]  # fmt: skip
    return results.markdown(header, body)


def draw(points, path, *, title=""):
    """Quality against bytes and against time, the fronts as steps; saves a PNG and returns its Figure.

    Points on a front show their number in the legend, which follows the order of `points`.
    """
    looks = {
        p.name: dict(color=style.COLORS[i % len(style.COLORS)], marker=style.MARKERS[i // len(style.COLORS) % 8])
        for i, p in enumerate(points)
    }
    columns = 3
    with style.drawing(path, title, panels=len(COSTS)) as (drawn, axes):
        drawn.set_figheight(4 + 0.2 * math.ceil(len(points) / columns))
        for place, (cost, label) in zip(axes, COSTS.items(), strict=True):
            best = front(points, cost)
            place.plot(
                [getattr(p, cost) for p in best], [p.quality for p in best], drawstyle="steps-post", color="#999999",
                linewidth=1.2,
            )  # fmt: skip
            for number, p in enumerate(points, 1):
                x = getattr(p, cost)
                place.plot([x], [p.quality], linestyle="none", label=f"{number}: {p.name}", **looks[p.name])
                if p in best:
                    place.annotate(number, (x, p.quality), xytext=(0, 6), textcoords="offset points", ha="center")
            place.margins(x=0.12, y=0.1)
            style.log_x(place, label)
        axes[0].set_ylabel(points[0].metric + (" (less is better)" if points[0].lower else ""))
        drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)
    return drawn


def rows(points, *, machine, seconds, command_line):
    """Rows of results, one for each of `MEASURED`; `points_of` undoes it.

    Args:
        machine: the machine that timed them.
        seconds: the time of the whole measurement.
    """
    found = []
    for p in points:
        facts = {"made": p.made, "metric": p.metric, "lower": p.lower, "seeds": p.seeds}
        row = {"config": p.name, "overrides": facts, "seed": None, "split": p.task, "paper": None}
        row |= {"hardware": machine, "seconds": seconds, "command": command_line}
        found += [row | {"metric": name, "value": getattr(p, name)} for name in MEASURED]
    return found


def points_of(rows):
    """The points that rows were made from."""
    found = {}
    for row in rows:
        about = {"name": row["config"], "task": row["split"], **row["overrides"]}
        found.setdefault((row["config"], row["split"], about["metric"]), about)[row["metric"]] = row["value"]
    return [measuring.Point(**about) for about in found.values()]


def add(page, points):
    """Adds a section for every task to a `pages.Page`: the table of its points and their picture."""
    for (task, metric), own in measuring.groups(points).items():
        name = "".join(c if c.isalnum() else "_" for c in f"{task} {metric}") + ".png"
        page.add(f"## {task}: {metric}", table(own))
        draw(own, page.picture(name, task), title=f"{task}: {metric}")
