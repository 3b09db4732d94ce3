"""The page of the Vertical LoRA study, made from the runs' records."""

import dataclasses
import statistics

from lwt.report import pages, results, style


@dataclasses.dataclass(frozen=True)
class Metric:
    """The metric of a task: its name in the figures, a label with the unit, and the factor on the values shown."""

    name: str
    label: str
    factor: float = 1.0


METRICS = {
    "images": Metric("accuracy", "accuracy (%)", 100),
    "unaugmented": Metric("accuracy", "accuracy (%)", 100),
    "translation": Metric("bleu", "BLEU"),
    "text": Metric("accuracy", "accuracy (%)", 100),
}
TITLES = {
    "images": "Images, augmented",
    "unaugmented": "Images as they are: the paper's Figure 2",
    "translation": "Translation",
    "text": "Text classification",
}
HOW_TO_READ = """\
"Test" is the best checkpoint on the test set, "best validation" its validation figure: mean ± standard deviation over
the seeds, and the difference from the whole model. Parameters are those stored, all of them trained; MB count them in
float32 with Adam's moments. The time of a step is the median over a run's log lines; compare it only on one machine.
"Turn" is the final validation loss minus the lowest one: according to the paper, it rises only for the whole model.
"""


def rows_of(records, *, command_line):
    """Rows for ``results.json``: quality, sizes and times of every run.

    Args:
        records: ``{name: record of the run}``.
        command_line: what makes the page.
    """
    rows = []
    for record in records.values():
        metric = METRICS[record["arguments"]["task"]].name
        fixed = results.of_run(record, command_line=command_line)
        validation = record["curves"]["validation"]
        values = {metric: record["figures"][metric]} | record["costs"]
        values["validation"] = max(validation[metric][1])
        values["turn"] = validation["loss"][1][-1] - min(validation["loss"][1])
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items()]
    return rows


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and the plots of every task into the folder `out`; returns their names.

    Args:
        out: folder of the page.
        records: ``{name: record of the run}``.
        missing: names of runs that were asked for and have no record.
        command_line: what makes the page.
    """
    records = dict(sorted(records.items(), key=_order))
    report = pages.Page(out, "Vertical LoRA compared with the whole model", command_line=command_line)
    rows = report.rows(rows_of(records, command_line=command_line))
    report.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    for task, metric in METRICS.items():
        own = [row for row in rows if row["overrides"]["task"] == task]
        if not own:
            continue
        report.add(f"## {TITLES[task]}", setting(own), table(own, metric))
        for name, label, factor in (("loss", "loss", 1), (metric.name, metric.label, metric.factor)):
            found = curves(records, task, name=name)
            if any(part[0] for parts in found.values() for part in parts.values()):
                draw(found, report.picture(f"{task}_{name}.png", label), label=label, factor=factor)
    return report.write()


def title_of(overrides):
    """``"whole"``, or ``"recursive, rank 4"``."""
    return f"{overrides['mode']}, rank {overrides['rank']}" if "rank" in overrides else overrides["mode"]


def setting(rows):
    """A sentence that says how the models of a task were trained."""
    runs = {(title_of(row["overrides"]), row["seed"]): row for row in rows}
    by_machine = {}
    for (title, _), row in runs.items():
        by_machine.setdefault(row["hardware"], {})[title] = None
    machines = "; ".join(
        f"{machine} ({'; '.join(titles)})" if len(by_machine) > 1 else machine
        for machine, titles in sorted(by_machine.items())
    )
    specs = ", ".join(f"`{spec}`" for spec in sorted({row["config"] for row in rows}))
    settings = f"{specs} with the settings of `studies/vertical/study.py`"
    return f"{settings}; {len(runs)} runs in {pages.hours(runs.values())} on {machines}."


def table(rows, metric):
    """The Markdown table of a task: quality, its difference to the whole model, sizes and times."""
    found = {}
    for row in rows:
        found.setdefault(title_of(row["overrides"]), {}).setdefault(row["metric"], []).append(row["value"])
    whole, body = found.get("whole"), []
    for name, own in found.items():
        gap = share = "–"
        if whole:
            share = f"{100 * own['parameters'][0] / whole['parameters'][0]:.2f} %"
        if whole and own is not whole:
            gap = f"{metric.factor * (statistics.fmean(own[metric.name]) - statistics.fmean(whole[metric.name])):+.2f}"
        test, best = (results.Cell.of(own[name], scale=metric.factor) for name in (metric.name, "validation"))
        quality = [test.text(2), gap, best.text(2)]
        megabytes = (own["parameter_bytes"][0] + own["optimizer_bytes"][0]) / 1e6
        sizes = [f"{own['parameters'][0]:,}", share, f"{megabytes:,.1f}"]
        time = f"{1e3 * statistics.fmean(own['step_seconds']):,.0f}"
        body.append([name, *quality, f"{statistics.fmean(own['turn']):.3f}", *sizes, time])
    first = ["model", f"test {metric.label}", "to whole", "best validation", "turn"]
    return results.markdown([*first, "parameters", "share", "MB", "ms a step"], body)


def curves(records, task, *, name):
    """``{title: {"train": (steps, values), "validation": ...}}`` of the first seed of every model of a task."""
    found = {}
    for record in records.values():
        if record["arguments"]["task"] == task:
            found.setdefault(title_of(record["arguments"]), {part: own[name] for part, own in record["curves"].items()})
    return found


def draw(found, path, *, label, factor=1):
    """Draws training and evaluation side by side, one colour a model.

    Args:
        found: from `curves`.
        path: of the PNG.
        label: of the vertical axis, with the unit.
        factor: on the values.
    """
    with style.drawing(path, "", panels=2, share_y=False) as (drawn, axes):
        for place, part in zip(axes, ("train", "validation")):
            place.set_title({"train": "Training", "validation": "Evaluation"}[part])
            place.set(xlabel="optimizer steps", ylabel=label)
            for i, (name, own) in enumerate(found.items()):
                steps, values = own[part]
                line = "--" if name.startswith("base") else "-"
                place.plot(steps, [factor * value for value in values], line, color=style.COLORS[i], label=name)
        drawn.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _order(item):
    """The whole model first, then by mode, the highest rank first."""
    arguments = item[1]["arguments"]
    return "rank" in arguments, arguments["mode"], -arguments.get("rank", 0), arguments["seed"]
