"""Pareto fronts: the models that no other beats in quality at their bytes or time."""

import re

from lwt.inspect import measuring
from lwt.report import line_names, plots, results, style

COSTS = {"bytes": "size (bytes)", "milliseconds": "time of one record alone (ms)"}  # a cost -> the label of its axis
MEASURED = ("quality", "bytes", "milliseconds", "rate")  # a row of results for each
MANY = 12  # models; more are points, of which those on a front have names
DATA = {  # part of a test set's name -> what people call it
    **{"snips": "Snips", "emotion": "Emotion", "limit": "LiMiT", "cifar10": "CIFAR-10", "radar_har": "Radar maps"},
    "multi30k_de_en": "German to English",
}
NAMES = {  # part of a run's folder -> what people call its model
    r"recipe/shallow-tuned": "fewer layers, tuned",
    r"recipe/pruned-tuned": "pruned, tuned",
    r"heads40-distilled": "fewer heads, distilled",
    r"heads40": "fewer heads",
    r"recipe.*/(\w+)": r"\1",
    r"embbert": "EmbBERT",
    r"recursive-r(\d+)": r"Vertical LoRA, rank \1",
    r"base-r(\d+)": r"Vertical LoRA from a base, rank \1",
    r"whole|^mt$": "whole model",
    r"lh_vit": "LH-ViT",
    r"-vit$": "ViT",
    r"kv_projection_(\w+)": r"K/V projection, \1",
    r"l(\d+)-d(\d+)-h\d+-f(\d+)": r"\1 layers, \2 wide, \3 hidden",
    r"compression/(\w+)-([\d.]+)": r"\1 \2",
}


def front(points, cost):
    """The points that no other beats at the same cost or less, the cheapest first.

    Args:
        points: of one task.
        cost: a key of `COSTS`.
    """
    return [points[i] for i in plots.front({i: (getattr(p, cost), p.rank) for i, p in enumerate(points)})]


def table(points):
    """The points of one task as Markdown; ▪ marks those on a front."""
    best = {cost: front(points, cost) for cost in COSTS}

    def mark(p, cost):
        return " ▪" if p in best[cost] else ""

    label, factor = results.shown(points[0].metric)
    header = ["model", "how it was made", label, "runs", "bytes", "ms for one record"]
    header += [f"records a second, {measuring.ROWS} at once"]
    body = [
        [p.name, p.made, f"{factor * p.quality:.2f}", str(p.seeds), f"{p.bytes:,}{mark(p, 'bytes')}",
         f"{p.milliseconds:.2f}{mark(p, 'milliseconds')}", f"{p.rate:,.0f}"]
        for p in points
    ]  # fmt: skip
    return results.markdown(header, body)


def spoken(name):
    """What people call the model of a run: ``"EmbBERT, int8"`` for ``"tuned/snips-embbert-pretrained, int8"``."""
    folder, _, form = name.partition(", ")
    for pattern, text in NAMES.items():
        if found := re.search(pattern, folder):
            said = found.expand(text)
            break
    else:
        said = folder.rpartition("/")[2]
    return f"{said}, {form}" if form else said


def names_of(points):
    """``{name: what people call the model}``; where several are called the same, their own names."""
    said = {p.name: spoken(p.name) for p in points}
    return {name: text if [*said.values()].count(text) == 1 else name for name, text in said.items()}


def message(points):
    """The title of a plot. It names the best model, and the smallest one within 1 % of its quality."""
    name, unit, factor = results.named(points[0].metric)
    best = max(points, key=lambda p: p.rank)
    small = min((p for p in points if p.rank >= best.rank - abs(best.rank) / 100), key=lambda p: p.bytes)
    data = next((title for name, title in DATA.items() if name in best.task), best.task)
    text = f"{data}: {name} {factor * small.quality:.1f}{unit} in {small.bytes / 1e6:.2f} MB ({spoken(small.name)})"
    return text + f"; the best of {len(points)} has {factor * best.quality:.1f}{unit}" if small is not best else text


def draw(points, path):
    """Quality, size and time of every model: bars, or for many models fronts; saves a PNG and returns its Figure."""
    (label, factor), said = results.shown(points[0].metric), names_of(points)
    if len(points) <= MANY:
        lines = {
            said[p.name]: {"quality": factor * p.quality, "size": p.bytes / 1e6, "time": p.milliseconds} for p in points
        }
        columns = {"quality": (label, 1), "size": ("size (MB)", 2), "time": ("time (ms)", 2)}
        return plots.rows(lines, path, columns=columns, title=message(points))
    with style.drawing(path, message(points), panels=2, across=1, height=8) as (drawn, axes):
        for place, (cost, heading) in zip(axes, COSTS.items(), strict=True):
            places = {p.name: (getattr(p, cost), factor * p.quality) for p in points}
            plots.draw_front(place, places, best=[p.name for p in front(points, cost)])
            place.set_ylabel(label + (", less is better" if points[0].lower else ""))
            style.log_x(place, heading)
        for place, cost in zip(axes, COSTS, strict=True):
            named = {said[p.name]: (getattr(p, cost), factor * p.quality, style.COLORS[0]) for p in front(points, cost)}
            line_names.beside(place, named)
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
        page.add(f"## {task}: {results.named(metric)[0]}", table(own))
        draw(own, page.picture(name, task))
