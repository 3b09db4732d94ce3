"""The page of the rank study, made from the runs' records: rows, tables, plots and sentences.

Source of the figures beside ours: "Implementing Transformers", Table 1.
"""

import os

from lwt.inspect import spectra
from lwt.report import pages, plots, results

METRICS = {
    "exact_match": "all tasks",
    "exact_match/sort_ascending": "ascending",
    "exact_match/sort_descending": "descending",
    "exact_match/add_1": "add 1",
    "exact_match/add_2": "add 2",
}
PAPER = {
    rank: dict(zip([*METRICS, "trainable"], figures))
    for rank, figures in {
        4: (0.002, 0.004, 0.001, 0.004, 0.0, 36_000),
        8: (0.42, 0.59, 0.28, 0.40, 0.42, 72_000),
        16: (0.88, 0.86, 0.81, 0.97, 0.88, 144_000),
        32: (0.95, 0.91, 0.91, 0.99, 0.95, 288_000),
    }.items()
}
TITLES = {
    "lora one": "LoRA, α/r = 1",
    "lora alpha/r": "LoRA, α = 1",
    "lora_plus one": "LoRA+",
    "singlora": "SingLoRA",
    "full": "full fine-tuning",
}
HOW_TO_READ = """\
Accuracy on the test split in per cent, exact match of the whole answer: mean ± standard deviation over the seeds / \
the paper's Table 1. Seconds of training include its evaluations.
"""


def rows_of(records, *, command_line):
    """Rows for ``results.json``: accuracies over all tasks and by task, and the trainable weights, of every run.

    Args:
        records: ``{name: record of the run}``.
        command_line: what makes the page.
    """
    rows = []
    for record in records.values():
        arguments, figures = dict(record["arguments"]), record["figures"]
        fixed = {
            "config": record["config"].partition(":")[0],
            "seed": arguments.pop("seed"),
            "overrides": arguments,
            "split": record["split"],
            "hardware": record["hardware"],
            "seconds": record["seconds"],
            "command": command_line,
        }
        values = {metric: figures[metric] for metric in METRICS if metric in figures}
        paper = PAPER.get(arguments.get("rank"), {}) if arguments["method"] == "lora" else {}
        for metric, value in (values | {"trainable": record["parameters"]["trainable"]}).items():
            rows.append(fixed | {"metric": metric, "value": value, "paper": paper.get(metric)})
    return rows


def groups(rows):
    """``{title: rows}`` by method and scaling, in the order of the rows."""
    found = {}
    for row in rows:
        found.setdefault(title_of(row["overrides"]), []).append(row)
    return found


def title_of(overrides):
    """What a method is called in tables and plots."""
    name = " ".join(str(overrides[key]) for key in ("method", "scaling") if key in overrides)
    return TITLES.get(name, name)


def table(rows):
    """The Markdown table of one method: ours / the paper's in per cent, a line for every rank."""
    ranked = "rank" in rows[0]["overrides"]
    header = ["rank", "trained", *METRICS.values(), "seeds", "seconds"]
    body = []
    for rank, line in results.cells(rows, index="rank" if ranked else "method", columns="metric").items():
        own = [row for row in rows if not ranked or row["overrides"]["rank"] == rank]
        seconds = sum(row["seconds"] for row in own) / len(own)
        accuracies = [_percent(line.get(metric)) for metric in METRICS]
        trained = f"{line['trainable'].mean:,.0f}"
        if line["trainable"].paper:
            trained += f" / {line['trainable'].paper / 1e3:g}k"
        first = str(rank) if ranked else "–"
        body.append([first, trained, *accuracies, str(line["exact_match"].count), f"{seconds:,.0f}"])
    return results.markdown(header, body)


def accuracies(rows):
    """``{rank: [accuracy of every seed]}`` over all tasks, of one method."""
    found = {}
    for row in rows:
        if row["metric"] == "exact_match":
            found.setdefault(row["overrides"].get("rank"), []).append(row["value"])
    return dict(sorted(found.items(), key=lambda item: item[0] or 0))


def means(rows):
    """``{rank: mean accuracy}`` over all tasks, of one method that has ranks; {} of others."""
    return {rank: sum(values) / len(values) for rank, values in accuracies(rows).items() if rank is not None}


def findings(by_title):
    """Sentences that sum up the figures."""
    lines = []
    paper = {rank: figures["exact_match"] for rank, figures in PAPER.items()}
    for title, rows in by_title.items():
        points = means(rows)
        if not points:
            values = accuracies(rows)[None]
            lines.append(f"{title}: {100 * sum(values) / len(values):.1f} % of all tasks.")
            continue
        parts = []
        for rank, accuracy in points.items():
            beside = f" (the paper's LoRA {100 * paper[rank]:g} %)" if rank in paper else ""
            parts.append(f"rank {rank} {100 * accuracy:.1f} %{beside}")
        high = [rank for rank in points if points[rank] >= 0.95]
        reached = f"95 % is first reached at rank {min(high)}." if high else "95 % is reached at no rank."
        lines.append(f"{title}: {', '.join(parts)}. {reached} {_elbow_text(points)}")
    lines.append(f"The paper's own figures: {_elbow_text(paper)}")
    return lines


def enough(points, *, margin=0.01):
    """The smallest rank within `margin` of the best accuracy."""
    best = max(points.values())
    return min(rank for rank, accuracy in points.items() if accuracy >= best - margin - 1e-9)


def _elbow_text(points):
    if max(points.values()) < 0.5:
        return "No elbow: no rank solves half of the tasks."
    chord = spectra.elbow(points)
    found = f"rank {chord} lies farthest above the chord" if chord else "no rank lies above the chord"
    return f"Elbow: {found}; rank {enough(points)} is the smallest within 1 point of the best."


def write(out, records, *, workdir, missing, command_line):
    """Writes README.md, results.json, table.csv, accuracy.png and loss.png into the folder `out`; returns their names.

    Args:
        out: folder of the page.
        records: ``{name: record of the run}``, in the order of the page.
        workdir: of the runs; it has their learning curves.
        missing: names of runs that were asked for and have no record.
        command_line: what makes the page.
    """
    report = pages.Page(out, "LoRA's rank on a trained translator", command_line=command_line)
    by_title = groups(report.rows(rows_of(records, command_line=command_line)))
    report.csv("table.csv", csv_table(by_title))
    report.add(f"{describe_base(next(iter(records.values()))['base'])}\n{_settings(records.values())}")
    report.add(pages.bullets([*findings(by_title), *pages.notes(records, missing=missing)]), HOW_TO_READ)
    for title, rows in by_title.items():
        report.add(f"## {title}", table(rows))
    ranked = {title: rows for title, rows in by_title.items() if means(rows)}
    if ranked:
        _draw_accuracy(report.picture("accuracy.png", "accuracy by rank"), ranked)
    drawn = curves(records)
    title, seed = title_of(next(iter(drawn.values()))), next(iter(drawn.values()))["seed"]
    report.add(f"Validation loss ({title}, seed {seed}):")
    labels = {f"rank {own['rank']}" if "rank" in own else title: name for name, own in drawn.items()}
    folders = {label: os.path.join(workdir, name) for label, name in labels.items()}
    report.curves("loss.png", "validation loss", runs=folders)
    return report.write()


def curves(records):
    """``{name: arguments}`` of the runs whose loss the page draws: all ranks of the first run's method and seed."""
    runs = {name: record["arguments"] for name, record in records.items()}
    first = next(iter(runs.values()))
    alike = [name for name, own in runs.items() if (title_of(own), own["seed"]) == (title_of(first), first["seed"])]
    return {name: runs[name] for name in alike}


def describe_base(base):
    """A sentence that says what the base was trained on and how good it is; `base` is from `study.measure_base`."""
    shown = ", ".join(f"{name} {value:.4g}" for name, value in base["figures"].items())
    return (
        f"Base: `{base['workdir']}`, trained on `{base['data']}`, checkpoint {base['checkpoint']} of {base['steps']} "
        f"steps ({shown})."
    )


def _settings(records):
    """A sentence that says how the adapters were trained."""
    steps = ", ".join(f"{steps:,}" for steps in sorted({record["steps"] for record in records}))
    rates = {}
    for record in records:
        arguments = record["arguments"]
        rates.setdefault(title_of(arguments), {})[arguments.get("rank", 0)] = record["learning_rate"]
    machines = ", ".join(sorted({record["hardware"] for record in records}))
    listed = "; ".join(f"{title} {_by_rank(of_ranks)}" for title, of_ranks in rates.items())
    return f"Adapters: {steps} steps each; peak learning rates: {listed}. Hardware: {machines}."


def _by_rank(rates):
    if set(rates) == {0}:
        return f"{rates[0]:g}"
    ranks = sorted(rates)
    return f"{', '.join(f'{rates[rank]:g}' for rank in ranks)} (ranks {', '.join(map(str, ranks))})"


def _percent(cell):
    """``"87.5 ± 0.6 / 88"``; one seed has no spread, most methods have no figure of the paper."""
    if cell is None:
        return "–"
    spread = f" ± {100 * cell.deviation:.1f}" if cell.count > 1 else ""
    return f"{100 * cell.mean:.1f}{spread}" + (f" / {100 * cell.paper:g}" if cell.paper is not None else "")


def csv_table(by_title):
    """Header and lines of ``table.csv``."""
    body = []
    for title, rows in by_title.items():
        ranked = "rank" in rows[0]["overrides"]
        for rank, line in results.cells(rows, index="rank" if ranked else "method", columns="metric").items():
            for metric, cell in line.items():
                numbers = (cell.mean, cell.deviation if cell.count > 1 else "", cell.count)
                body.append([title, rank if ranked else "", metric, *numbers, cell.paper])
    return ["method", "rank", "metric", "mean", "deviation", "seeds", "paper"], body


def _draw_accuracy(path, ranked):
    plots.ranks(
        {
            title: {rank: [100 * value for value in values] for rank, values in accuracies(rows).items()}
            for title, rows in ranked.items()
        },
        path,
        parameters={
            title: {row["overrides"]["rank"]: row["value"] for row in rows if row["metric"] == "trainable"}
            for title, rows in ranked.items()
        },
        paper={rank: 100 * figures["exact_match"] for rank, figures in PAPER.items()},
        title="Accuracy over all tasks",
    )
