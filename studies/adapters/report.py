"""The page of the study of adapters, made from the runs' records."""

import collections
import statistics

from lwt.report import line_names, pages, plots, results, searched, style

TITLES = {
    **{"lora": "LoRA", "lora_plus": "LoRA+", "lora_fa": "LoRA-FA", "lora_dropout": "LoRA dropout", "dora": "DoRA"},
    **{
        "periodic_lora": "PeriodicLoRA",
        "adalora": "AdaLoRA",
        "pissa": "PiSSA",
        "eva": "EVA",
        "corda": "CorDA",
        "lora_ga": "LoRA-GA",
        "singlora": "SingLoRA",
        "hira": "HiRA",
    },
    **{"miss": "MiSS", "shira": "SHiRA", "oft": "OFT", "lokr": "LoKr", "vera": "VeRA", "c3a": "C3A", "ia3": "IA3"},
    **{
        "unilora": "Uni-LoRA",
        "houlsby": "Houlsby",
        "bitfit": "BitFit",
        "layer_norm": "layer norms",
        "head": "head alone",
        "full": "all weights",
    },
}
ENCODER = {"snips": "Snips", "emotion": "Emotion", "limit": "LiMiT"}
TRANSLATOR = {"arithmetic": "arithmetic"}
PARTS = {"encoder": ENCODER, "translator": TRANSLATOR}
BUDGETS = (1_000, 10_000, 100_000)  # bytes in float16
CLOSE = 0.005  # of accuracy: as good as the best
LEARNS = 0.05  # the least accuracy of an adapter that the advice may recommend
CHOICE = """\
Adapters are chosen by their accuracy on the validation sets, at the rate that the search found (seed 0). The figures
are those of the test sets, means over the tasks and seeds.
"""
HOW_TO_READ = """\
Accuracy on the test split in per cent (arithmetic: exact match): mean ± standard deviation over the seeds. \
"Trained" and the bytes are without the classifier's head, which all methods train; "int8" rounds the adapter to eight \
bits, with a float32 scale for each column of a leaf's first axis (of rank 1 and of C3A for each value, so that \
nothing changes), and "Δ" is the resulting change in accuracy, in points. Memory is weights, optimizer and activations \
of a training step on rows of 32 tokens, as compiled; "step" is the time of a step in training, and "merge" the time \
to write the adapter into the base. Times are those of the machine that measured most settings. "*" marks the memory \
of settings that another machine measured, where a program may take more or less.
"""


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json, table.csv and the pictures into the folder `out`; see `study.main`.

    `records` are those of searches and runs.
    """
    searches = [record for record in records.values() if "tried" in record]
    costs = costs_of(record for record in records.values() if "memory" in record)
    runs = {name: record for name, record in records.items() if "figures" in record}
    page = pages.Page(out, "Adapters for small models", command_line=command_line)
    page.rows(rows_of(runs, command_line=command_line))
    groups = by_setting(runs.values())
    page.csv("table.csv", csv_table(groups))
    page.add(describe(runs.values(), searches), pages.bullets(pages.notes(records, missing=missing)))
    for part, tasks in PARTS.items():
        own = complete(groups, tasks)
        if own:
            judged = validated(searches, tasks)
            page.add(f"## Which one to use: {part}", CHOICE, pages.bullets(advice(own, tasks, judged=judged)))
            draw(page.picture(f"{part}.png", f"accuracy by bytes, {part}"), own, tasks=tasks, judged=judged)
            page.add(f"## All figures: {part}", HOW_TO_READ, table(own, tasks, costs=costs))
    page.add("## The rates", searched.EDGES, rates_table(searches))
    return page.write()


def costs_of(records):
    """``{(task, method, size): record}``; the key ``elsewhere`` says that another machine measured it than most."""
    records = list(records)
    machines = collections.Counter(record["hardware"] for record in records)
    shown = max(machines, key=machines.get, default=None)
    return {
        tuple(record["arguments"].values())[:3]: record | {"elsewhere": record["hardware"] != shown}
        for record in records
    }


def rows_of(records, *, command_line):
    """Rows for ``results.json``."""
    rows = []
    for record in records.values():
        fixed = results.of_run(record, command_line=command_line)
        figures = record["figures"]
        values = {"accuracy": accuracy_of(figures), "trainable": record["trainable"]}
        rows += [fixed | {"metric": metric, "value": value} for metric, value in values.items()]
    return rows


def accuracy_of(figures):
    """Exact match of a translator, accuracy of a classifier."""
    return figures.get("exact_match", figures.get("accuracy"))


def by_setting(records):
    """``{(method, size): {task: [record of every seed]}}``."""
    found = {}
    for record in records:
        about = record["arguments"]
        found.setdefault((about["method"], about["size"]), {}).setdefault(about["task"], []).append(record)
    return found


def complete(groups, tasks):
    """The settings that have records of all `tasks`: ``{(method, size): {task: records}}``."""
    return {setting: {task: found[task] for task in tasks} for setting, found in groups.items() if {*tasks} <= {*found}}


def mean_accuracy(found):
    """The mean over tasks of the mean over seeds."""
    return statistics.fmean(statistics.fmean(_accuracies(records)) for records in found.values())


def validated(searches, tasks):
    """``{(method, size): accuracy}`` on the validation sets at the rate that the search found, a mean over `tasks`."""
    found = {}
    for record in searches:
        about = record["arguments"]
        best = next(trial for trial in record["tried"] if trial["rate"] == record["rate"])
        found.setdefault((about["method"], about["size"]), {})[about["task"]] = accuracy_of(best)
    return {setting: statistics.fmean(own[x] for x in tasks) for setting, own in found.items() if {*tasks} <= {*own}}


def bytes_of(found, kind="float16"):
    """Bytes of the adapter; of all weights where the run has no adapter."""
    record = next(iter(found.values()))[0]
    size = {"float32": 4, "float16": 2, "int8": 1}[kind]
    return record["bytes"][kind] if "bytes" in record else size * record["trainable"]


def advice(groups, tasks, *, judged):
    """Sentences that name the best adapter for each budget of bytes, and small ones that are nearly as good.

    Args:
        groups: see `complete`; tasks: of these.
        judged: accuracies that choose, those of `validated`. The sentences give accuracies on the test sets.
    """
    lines = []
    scores = {setting: mean_accuracy(found) for setting, found in groups.items()}
    sizes = {setting: bytes_of(found) for setting, found in groups.items()}
    adapted = [setting for setting in groups if setting[0] not in ("head", "full") and setting in judged]
    for budget in BUDGETS:
        fitting = [setting for setting in adapted if sizes[setting] <= budget]
        if fitting:
            best = max(fitting, key=judged.get)
            if judged[best] < LEARNS:
                lines.append(f"Up to {budget:,} bytes (float16): no adapter here learns the task.")
                continue
            near = [x for x in fitting if judged[x] >= judged[best] - CLOSE and x[0] != best[0]]
            others = ", ".join(
                f"{title_of(x)} ({100 * scores[x]:.1f} %)" for x in sorted(near, key=judged.get, reverse=True)[:3]
            )
            also = f"; at most half a point below it on the validation sets: {others}" if others else ""
            lines.append(
                f"Up to {budget:,} bytes (float16): **{title_of(best)}**, {100 * scores[best]:.1f} % with "
                f"{sizes[best]:,} bytes{also}."
            )
    if adapted:
        best = max(adapted, key=judged.get)
        near = [setting for setting in adapted if judged[setting] >= judged[best] - CLOSE]
        small = min(near, key=sizes.get)
        smaller = (
            f" On the validation sets, **{title_of(small)}** is at most half a point below it; on the test sets it has "
        )
        lines.append(
            f"Of any size: {title_of(best)}, {100 * scores[best]:.1f} % with {sizes[best]:,} bytes."
            + (f"{smaller}{100 * scores[small]:.1f} % with {sizes[small]:,} bytes." if small != best else "")
        )
    for method in ("full", "head"):
        if (method, 0) in scores:
            lines.append(f"For comparison: {TITLES[method]}, {100 * scores[method, 0]:.1f} %.")
    return lines


def title_of(setting):
    """``"LoRA 4"``; methods of one size have no number."""
    method, size = setting
    return f"{TITLES.get(method, method)} {size}" if size else TITLES.get(method, method)


def table(groups, tasks, *, costs):
    """The Markdown table of all settings, the best first."""
    header = [
        *("method", "trained", "float32", "float16", "int8", *tasks.values()),
        *(["mean"] if len(tasks) > 1 else []),
        *("Δ int8", "memory (MB)", "step (ms)", "merge (ms)", "seeds"),
    ]
    body = []
    for setting in sorted(groups, key=lambda x: mean_accuracy(groups[x]), reverse=True):
        found = groups[setting]
        records = [record for own in found.values() for record in own]
        body.append(
            [
                title_of(setting),
                f"{next(iter(found.values()))[0]['trainable']:,}",
                *(f"{bytes_of(found, kind):,}" for kind in ("float32", "float16", "int8")),
                *(results.percent(_accuracies(own)) for own in found.values()),
                *([f"{100 * mean_accuracy(found):.1f}"] if len(tasks) > 1 else []),
                _optional([100 * _change(record) for record in records if "int8" in record], "+z.1f"),
                *_costs(costs, tasks, setting),
                str(min(len(own) for own in found.values())),
            ]
        )
    return results.markdown(header, body)


def _costs(costs, tasks, setting):
    """The cells of memory, step and merge."""
    measured = next((costs[task, *setting] for task in tasks if (task, *setting) in costs), None)
    if measured is None:
        return ["–"] * 3
    memory = f"{measured['memory'] / 1e6:.1f}"
    if measured["elsewhere"]:
        return [f"{memory}*", "–", "–"]
    merge = measured["merge_seconds"]
    return [memory, f"{1e3 * measured['step_seconds']:.1f}", f"{1e3 * merge:.2f}" if merge else "–"]


def rates_table(searches):
    """The rate found for each method and size."""
    found = {}
    for record in searches:
        about, edge = record["arguments"], "*" if searched.at_edge(record) else ""
        found.setdefault((about["method"], about["size"]), {})[about["task"]] = f"{record['rate']:.3g}{edge}"
    tasks = ENCODER | TRANSLATOR
    body = [[title_of(setting), *(rates.get(task, "–") for task in tasks)] for setting, rates in found.items()]
    return results.markdown(["method", *tasks.values()], body)


def describe(records, searches):
    """A sentence that says what was trained and where."""
    records = list(records)
    steps = " or ".join(f"{steps:,}" for steps in sorted({record["steps"] for record in records}))
    bases = ", ".join(dict.fromkeys(record["config"].partition("base=")[2].partition(",")[0] for record in records))
    trials = max((len(record["tried"]) for record in searches), default=0)
    return (
        f"Bases: {bases}. {steps} steps each; {trials} rates for every method, size and task. Hardware: "
        f"{pages.machines(records)}; {pages.hours(records)} of training."
    )


def draw(path, groups, *, tasks, judged):
    """Accuracy by the adapter's bytes, a point for each setting; those that no smaller one beats have a name.

    The title names the most accurate one of `judged`, accuracies on the validation sets.
    """
    scores = {setting: 100 * mean_accuracy(found) for setting, found in groups.items()}
    points = {x: (bytes_of(groups[x]), score) for x, score in scores.items() if x[0] not in ("head", "full")}
    best = plots.front(points)
    chosen = max(points, key=lambda setting: judged.get(setting, 0.0))
    size, accuracy = points[chosen]
    title = f"{title_of(chosen)}, best on validation data, reaches {accuracy:.1f} % with {size / 1e3:.0f} kB"
    with style.drawing(path, title, height=5.5) as (_, axes):
        plots.draw_front(axes, points, best=best)
        for method in ("full", "head"):
            if (method, 0) in scores:
                axes.axhline(scores[method, 0], color="#9a9a9a", linewidth=1, linestyle="--", zorder=0)
                where = dict(
                    xy=(0.99, scores[method, 0]), xycoords=("axes fraction", "data"), ha="right", color="#666666"
                )
                text = f"{TITLES[method]}: {scores[method, 0]:.1f} %"
                axes.annotate(text, **where, xytext=(0, 3), textcoords="offset points", fontsize=9.5)
        axes.set_ylabel(f"mean accuracy of {len(tasks)} tasks (%)" if len(tasks) > 1 else "exact match (%)")
        style.log_x(axes, "bytes of the adapter in float16")
        line_names.beside(axes, {title_of(x): (*points[x], style.COLORS[0]) for x in best})


def csv_table(groups):
    """Header and lines of ``table.csv``."""
    body = []
    for (method, size), found in groups.items():
        for task, records in found.items():
            values = _accuracies(records)
            spread = statistics.stdev(values) if len(values) > 1 else ""
            sizes = [bytes_of({task: records}, kind) for kind in ("float32", "float16", "int8")]
            about = (records[0]["trainable"], *sizes, statistics.fmean(values), spread, len(values))
            body.append([method, size or "", task, *about])
    return ["method", "size", "task", "trained", "float32", "float16", "int8", "accuracy", "deviation", "seeds"], body


def _accuracies(records):
    return [accuracy_of(record["figures"]) for record in records]


def _change(record):
    return accuracy_of(record["int8"]) - accuracy_of(record["figures"])


def _optional(values, form):
    return f"{statistics.fmean(values):{form}}" if values else "–"
