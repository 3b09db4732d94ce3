"""Pareto fronts: models as points of quality, bytes and time, and the points that no other beats."""

import dataclasses
import math
import pathlib

from lwt.report import plots, results

COSTS = {"bytes": "bytes", "milliseconds": "milliseconds of one record alone"}  # a cost -> the label of its axis
MEASURED = ("quality", "bytes", "milliseconds", "rate")  # a row of results for each


@dataclasses.dataclass(frozen=True)
class Point:
    """A model on the plot of a task.

    Attributes:
        name: of the model; made: how it was made.
        task: the test set.
        metric: name of the figure; quality: its value; lower: whether less of it is better.
        seeds: the number of runs behind the mean quality.
        bytes: the size of the file or the weights.
        milliseconds: the time of a record alone.
        rate: records a second, in batches.
    """

    name: str
    made: str
    task: str
    metric: str
    lower: bool
    quality: float
    seeds: int
    bytes: int
    milliseconds: float = 0.0
    rate: float = 0.0

    @property
    def rank(self):
        """The quality as a number, higher is better."""
        return -self.quality if self.lower else self.quality


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


def groups(points):
    """``{(task, metric): points}``, the best first."""
    found = {}
    for point in sorted(points, key=lambda p: -p.rank):
        found.setdefault((point.task, point.metric), []).append(point)
    return dict(sorted(found.items()))


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
        p.name: dict(color=plots.COLORS[i % len(plots.COLORS)], marker=plots.MARKERS[i // len(plots.COLORS) % 8])
        for i, p in enumerate(points)
    }
    columns = 3
    with plots.drawing(path, title, panels=len(COSTS)) as (drawn, axes):
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
            plots.log_x(place, label)
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
    return [Point(**about) for about in found.values()]


def sections(points, folder, *, beside):
    """Markdown of all tasks, a table and a picture each; draws the pictures.

    Args:
        points: of any tasks.
        folder: the folder of the pictures.
        beside: its path relative to the page.

    Returns:
        ``(text, names of the pictures)``.
    """
    parts, names = [], []
    for (task, metric), own in groups(points).items():
        name = "".join(c if c.isalnum() else "_" for c in f"{task} {metric}") + ".png"
        draw(own, pathlib.Path(folder) / name, title=f"{task}: {metric}")
        parts += [f"## {task}: {metric}\n", table(own), f"![{task}]({beside}{name})\n"]
        names.append(name)
    return "\n".join(parts), names
