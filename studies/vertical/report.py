"""The page of the Vertical LoRA study, made from the runs' records."""

import dataclasses
import statistics

from matplotlib import ticker

from lwt.report import line_names, pages, results, style


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
}
TITLES = {
    "images": "Images, augmented",
    "unaugmented": "Images as they are: the paper's Figure 2",
    "translation": "Translation",
}
HOW_TO_READ = """\
"Whole" is the model without increments. "Recursive" adds a layer's increment to the weights of the layer before (the
paper's equations 13 to 15), "base" to those of the first layer of its chunk (the authors' code). All models of a task
train for the same steps at the same rate, which was not searched for each of them.

"Test" is the best checkpoint on the test set, "best validation" its validation figure: mean ± standard deviation over
the seeds. "Difference" is relative to the whole model on the test set. "Rise" is the final validation loss minus the
lowest one: according to the paper, the loss rises only for the whole model. "Training loss" is the mean over the last
tenth of the training: according to the paper, it is lowest for the whole model.

Parameters are those stored, all of them trained; MB count them in float32 with Adam's moments. The time of a step is
the median over a run's log lines; other programs on the machine may have slowed it. Runs on another machine than the
whole model's have no time.
"""


def rows_of(records, *, command_line):
    """Rows for ``results.json``: quality, sizes and times of every run."""
    rows = []
    for record in records.values():
        metric = METRICS[record["arguments"]["task"]].name
        fixed = results.of_run(record, command_line=command_line)
        validation = record["curves"]["validation"]
        values = {metric: record["figures"][metric]} | record["costs"]
        values["validation"] = max(validation[metric][1])
        values["turn"] = validation["loss"][1][-1] - min(validation["loss"][1])
        values["fit"] = statistics.fmean(last_tenth(record["curves"]["train"]["loss"][1]))
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items()]
    return rows


def last_tenth(values):
    """The last tenth of a list, at least its last value."""
    return values[-max(1, len(values) // 10) :]


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and the plots of every task into the folder `out`; see `study.main`."""
    records = dict(sorted(records.items(), key=_order))
    rows = rows_of(records, command_line=command_line)
    size = " at the paper's size" if any("size=paper" in row["config"] for row in rows) else ""
    report = pages.Page(out, f"Vertical LoRA compared with the whole model{size}", command_line=command_line)
    rows = report.rows(rows)
    report.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    for task, metric in METRICS.items():
        own = [row for row in rows if row["overrides"]["task"] == task]
        if not own:
            continue
        report.add(f"## {TITLES[task]}", setting(own), table(own, metric))
        found = {name: curves(records, task, name=name) for name in ("loss", metric.name)}
        if all(parts["validation"][0] for lines in found.values() for parts in lines.values()):
            picture = report.picture(f"{task}.png", f"loss and {metric.label} on the validation set")
            draw(found, picture, metric=metric, title=f"{TITLES[task]}: {message(own, metric)}")
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
    return f"{settings}: {pages.effort(runs.values(), on=machines)}."


def by_model(rows):
    """``{title: {metric: values of the seeds}}``, times only of the machines that trained the whole model."""
    machines = {row["hardware"] for row in rows if title_of(row["overrides"]) == "whole"}
    found = {}
    for row in rows:
        if row["metric"] == "step_seconds" and machines and row["hardware"] not in machines:
            continue
        found.setdefault(title_of(row["overrides"]), {}).setdefault(row["metric"], []).append(row["value"])
    return found


def table(rows, metric):
    """The Markdown table of a task: quality, its difference to the whole model, sizes and times."""
    found = by_model(rows)
    whole, body = found.get("whole"), []
    for name, own in found.items():
        gap = share = "–"
        if whole:
            share = f"{100 * own['parameters'][0] / whole['parameters'][0]:.2f} %"
        if whole and own is not whole:
            gap = f"{metric.factor * (statistics.fmean(own[metric.name]) - statistics.fmean(whole[metric.name])):+z.2f}"
        test, best = (results.Cell.of(own[name], scale=metric.factor) for name in (metric.name, "validation"))
        quality = [test.text(2), gap, best.text(2)]
        megabytes = (own["parameter_bytes"][0] + own["optimizer_bytes"][0]) / 1e6
        sizes = [f"{own['parameters'][0]:,}", share, f"{megabytes:,.1f}"]
        seconds = own.get("step_seconds")
        time = f"{1e3 * statistics.fmean(seconds):,.0f}" if seconds else "–"
        losses = [f"{statistics.fmean(own[loss]):.3f}" for loss in ("turn", "fit")]
        body.append([name, *quality, *losses, *sizes, time])
    first = ["model", f"test {metric.label}", "difference", "best validation", "rise", "training loss"]
    return results.markdown([*first, "parameters", "share of whole", "MB", "ms a step"], body)


def message(rows, metric):
    """What the models with fewer parameters lose on the test set, in words."""
    found = by_model(rows)
    whole = found.pop("whole", None)
    if not whole or not found:
        return "validation set"
    shares = [own["parameters"][0] / whole["parameters"][0] for own in found.values()]
    gaps = [
        metric.factor * (statistics.fmean(own[metric.name]) - statistics.fmean(whole[metric.name]))
        for own in found.values()
    ]
    unit = "points" if metric.factor == 100 else metric.label
    lost = f"{_range(gaps, '+z.1f')} {unit}".replace("-", "−")
    return f"{_range(shares, '.0%')} of the parameters, {lost} on the test set"


def _range(values, form):
    """The lowest and the highest value, such as "29% to 40%"; one value if both look the same."""
    return " to ".join(dict.fromkeys(format(value, form) for value in (min(values), max(values))))


def curves(records, task, *, name):
    """``{title: {"train": (steps, values), "validation": ...}}`` of the first seed of every model of a task."""
    found = {}
    for record in records.values():
        if record["arguments"]["task"] == task:
            found.setdefault(title_of(record["arguments"]), {part: own[name] for part, own in record["curves"].items()})
    return found


def draw(found, path, *, metric, title):
    """Draws loss and quality on the validation set side by side, one line a model, one colour a kind of model.

    Args:
        found: ``{"loss": from curves, metric.name: from curves}``.
        path: of the PNG.
        metric: of the task.
        title: of the picture.
    """
    labels = {"loss": ("validation loss", 1), metric.name: (f"validation {metric.label}", metric.factor)}
    with style.drawing(path, title, panels=2, share_y=False) as (_, axes):
        for place, (name, (label, factor)) in zip(axes, labels.items(), strict=True):
            kinds, ends = {}, {}
            for model, own in found[name].items():
                steps, values = own["validation"]
                kind = model.partition(",")[0]
                color = style.COLORS[list(dict.fromkeys([*kinds, kind])).index(kind)]
                mark = style.MARKERS[kinds.get(kind, 0)]
                kinds[kind] = kinds.get(kind, 0) + 1
                place.plot(steps, [factor * value for value in values], color=color, marker=mark, markersize=4)
                ends[model] = (steps[-1], factor * values[-1], color)
            place.set(xlabel="optimizer steps")
            place.set_xlim(left=0)
            place.xaxis.set_major_formatter(ticker.FuncFormatter(style.thousands))
            place.set_title(label, loc="left", fontsize=10.5)
        line_names.put(axes[1], ends, gap=0.07)


def _order(item):
    """The whole model first, then by mode, the highest rank first."""
    arguments = item[1]["arguments"]
    return "rank" in arguments, arguments["mode"], -arguments.get("rank", 0), arguments["seed"]
