"""The page of the attention study, made from the runs' records: quality against cost."""

import math
import re
import statistics

from lwt.report import pages, plots, results, searched
from studies.attention import variants

METRICS = {  # task -> metric of its test set, label, factor on what is shown, digits after the point
    "translation": ("bleu", "BLEU", 1, 2),
    "classification": ("accuracy", "accuracy (%)", 100, 2),
}
COSTS = {  # figure -> header, factor on what is shown, digits after the point
    "flops": ("MFLOP an example", 1e-6, 1),
    "cache_bytes": ("cache, kB", 1e-3, 1),
    "parameters": ("parameters", 1, 0),
}
PLAIN = "softmax"
HOW_TO_READ = """\
Quality of the best checkpoint on the test set: mean ± standard deviation over the seeds, and the difference to softmax
attention over the seeds that both have, with its standard error. Costs are those of the whole model.
Operations: forward and backward of a row of 32 tokens (a side), loops counted as often as they run. Cache: float32, of
one text of 64 tokens and as many steps, both attentions of the decoder. "softmax in": where softmax attention stands
instead, in the decoder (no causal form) or across to the encoder. [Times](../attention/README.md) have a page of their
own.
"""
ONE_RATE = """\
{tasks}: all attentions train at the same rate, which was not searched for each of them; with another rate, their order
may differ.
"""
SEARCHED = """\
{tasks}: the rate of an attention is the best of three on the validation set, with seed 0 and half of the training.
"""
SEARCHES = "MCC (%) on the validation set after half of the training, by rate."


def rows_of(runs, *, command_line):
    """Rows for ``results.json``: quality and costs of every run."""
    rows = []
    for record in runs:
        metric = METRICS[record["arguments"]["task"]][0]
        fixed = results.of_run(record, command_line=command_line)
        costs = {cost: record["costs"][cost] for cost in COSTS if cost in record["costs"]}
        for name, value in ({metric: record["figures"][metric]} | costs).items():
            rows.append(fixed | {"metric": name, "value": value})
    return rows


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json, table.csv and quality.png into the folder `out`; see `study.main`."""
    report = pages.Page(out, "Attention: quality against cost", command_line=command_line)
    runs, searches = searched.parted(records)
    rates = {}  # task -> {attention: the rate that its search found}
    for record in searches:
        rates.setdefault(_task(record), {})[_attention(record)] = record["rate"]
    rows = report.rows(rows_of(runs, command_line=command_line))
    tables = {task: values for task in METRICS if (values := values_of(rows, task))}
    sentences = [line for task, values in tables.items() for line in findings(task, values)]
    report.add(
        "\n".join(_settings(runs)),
        pages.bullets([*sentences, *pages.notes(records, missing=missing)]),
        HOW_TO_READ,
        *_rates({*tables} - {*rates}, ONE_RATE),
        *_rates({*tables} & {*rates}, SEARCHED),
    )
    _draw(report.picture("quality.png", "quality and operations"), tables)
    for task, values in tables.items():
        report.add(f"## {task.capitalize()}", table(task, values, runs=runs, rates=rates.get(task)))
        if own := {_attention(record): record for record in searches if _task(record) == task}:
            ordered = [own[name] for name in variants.names() if name in own]
            report.add(searched.edges(ordered, SEARCHES), searched.table(ordered, labels={"attention": _attention}))
    report.csv("table.csv", (["task", "attention", "metric", "mean", "deviation", "seeds"], _lines(tables)))
    return report.write()


def values_of(rows, task):
    """``{attention: {metric: {seed: value}}}`` of one task, in the order of the variants."""
    found = {}
    for name in variants.names():
        for row in rows:
            if row["overrides"] == {"task": task, "attention": name}:
                found.setdefault(name, {}).setdefault(row["metric"], {})[row["seed"]] = row["value"]
    return found


def difference(ours, plain):
    """``(difference of the means, its standard error)`` over the seeds that both have; of one seed without error."""
    ours, plain = ([values[seed] for seed in sorted({*ours} & {*plain})] for values in (ours, plain))
    if not ours:
        return math.nan, None
    gap = statistics.fmean(ours) - statistics.fmean(plain)
    if min(len(ours), len(plain)) < 2:
        return gap, None
    return gap, math.sqrt(sum(statistics.variance(values) / len(values) for values in (ours, plain)))


def findings(task, values):
    """Sentences on what K/V projection loses."""
    metric, label, factor, digits = METRICS[task]
    if PLAIN not in values:
        return []
    plain, lines = values[PLAIN], []
    for name, own in values.items():
        if not name.startswith("kv_projection"):
            continue
        gap, error = difference(own[metric], plain[metric])
        text = f"{task.capitalize()}, {name}: {factor * gap:+.{digits}f} {label} against softmax attention"
        if error is not None:
            verdict = "within" if abs(gap) <= 2 * error else "more than"
            text += f", {verdict} two standard errors of the difference ({2 * factor * error:.{digits}f})"
        else:
            text += " with one seed"
        share = statistics.fmean(own["flops"].values()) / statistics.fmean(plain["flops"].values())
        lines.append(f"{text}; {share:.0%} of the operations.")
    return lines


def table(task, values, *, runs, rates=None):
    """The Markdown table of a task: quality, its difference to softmax attention, the costs, and the `rates` found."""
    metric, label, factor, digits = METRICS[task]
    costs = [cost for cost in COSTS if any(cost in own for own in values.values())]
    about = {_attention(record): record for record in runs if _task(record) == task}
    body = []
    for name, own in values.items():
        gap = "–"
        if PLAIN in values and name != PLAIN:
            mean, error = difference(own[metric], values[PLAIN][metric])
            gap = f"{factor * mean:+.{digits}f}" + (f" ± {factor * error:.{digits}f}" if error is not None else "")
        cells = [_number(own[cost], *COSTS[cost][1:]) if cost in own else "–" for cost in costs]
        cells += [f"{rates[name]:g}" if name in rates else "–"] if rates else []
        elsewhere = ", ".join(key.partition("_")[0] for key in about[name]["softmax_in"]) or "–"
        setting = about[name]["setting"]
        body.append([name, _quality([*own[metric].values()], factor, digits), gap, *cells, elsewhere, f"`{setting}`"])
    header = ["attention", label, "to softmax", *(COSTS[cost][0] for cost in costs), *(["rate"] if rates else [])]
    return results.markdown([*header, "softmax in", "setting"], body)


def _rates(tasks, text):
    """The paragraph `text` on the rates of some tasks; none without tasks."""
    return [text.format(tasks=" and ".join(sorted(tasks)).capitalize())] if tasks else []


def _task(record):
    return record["arguments"]["task"]


def _attention(record):
    return record["arguments"]["attention"]


def _settings(runs):
    """Sentences on how the models were trained."""
    lines = []
    for task in METRICS:
        own = [record for record in runs if _task(record) == task]
        if own:
            steps = ", ".join(f"{count:,}" for count in sorted({record["steps"] for record in own}))
            seeds = len({record["arguments"]["seed"] for record in own})
            specs = ", ".join(sorted({f"`{re.sub(',rate=[^,]*', '', record['config'])}`" for record in own}))
            lines.append(
                f"{task.capitalize()}: {specs} with the settings of `configs/kv_projection.py`, {steps} steps, "
                f"{seeds} seeds; {pages.effort(own)}."
            )
    return lines


def _quality(values, factor, digits):
    """``"25.10 ± 0.21 (n=3)"``."""
    return results.Cell.of(values, scale=factor).text(digits)


def _number(values, factor, digits):
    return f"{factor * statistics.fmean(values.values()):,.{digits}f}"


def _lines(tables):
    """Lines of ``table.csv``."""
    for task, values in tables.items():
        for name, own in values.items():
            for metric, found in own.items():
                found = found.values()
                deviation = statistics.stdev(found) if len(found) > 1 else ""
                yield [task, name, metric, statistics.fmean(found), deviation, len(found)]


def _draw(path, tables):
    """A line for each attention: quality and operations, task by task."""
    lines, columns, dots = {}, {}, []
    _, factor, _ = COSTS["flops"]
    for task, values in tables.items():
        metric, label, scale, _ = METRICS[task]
        columns |= {task: (label, 1), f"{task} operations": ("MFLOP", 0)}
        dots.append(task)
        for name, own in values.items():
            line = lines.setdefault(variants.TITLES[name], {})
            line[task] = [scale * value for value in own[metric].values()]
            line[f"{task} operations"] = factor * statistics.fmean(own["flops"].values())
    title = f"{' and '.join(tables)}: quality, and operations of an example".capitalize()
    plots.rows(lines, path, columns=columns, title=title, dots=dots, faded=[variants.TITLES[PLAIN]])
