"""The page of the rank study: rows, tables, plots and sentences, all made from the runs' own files.

Source of the figures beside ours: "Implementing Transformers", Table 1.
"""

import csv
import os
import pathlib

from lwt import errors
from lwt.report import elbow, plots, results, study
from lwt.runs import checkpoint, run_config

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


def rows_of(records, folders, *, command):
    """Rows for ``results.json``: accuracies over all tasks and by task, and the trainable weights, of every run.

    Args:
        records: ``{name: what rank_study kept of the run, or None}``.
        folders: ``{name: the run's workdir}``; ``metrics.jsonl`` there tells the seconds of training.
    """
    rows = []
    for name, record in records.items():
        if not record:
            continue
        arguments, figures = dict(record["arguments"]), record["figures"]
        fixed = {
            "config": record["config"].partition(":")[0],
            "seed": arguments.pop("seed"),
            "overrides": arguments,
            "split": record["split"],
            "hardware": record["hardware"],
            "seconds": study.seconds(folders[name]),
            "command": command,
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
    """Sentences, one a line, that say what the figures say."""
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


def _elbow_text(points):
    if max(points.values()) < 0.5:
        return "No elbow: not one rank solves half of the tasks."
    chord = elbow.farthest(points)
    found = f"rank {chord} lies farthest above the chord" if chord else "no rank lies above the chord"
    return f"Elbow: {found}; rank {elbow.enough(points)} is the smallest within 1 point of the best."


def write(out, records, folders, *, base, command):
    """Writes README.md, results.json, table.csv, accuracy.png and loss.png into the folder `out`.

    Raises:
        lwt.errors.DataError: no run has figures yet.
    """
    rows = rows_of(records, folders, command=command)
    if not rows:
        raise errors.DataError(
            f"none of the {len(records)} runs has figures yet; the study without --report_only makes them"
        )
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    results.write(out / "results.json", rows)
    rows = results.load(out / "results.json")
    by_title = groups(rows)
    _write_csv(out / "table.csv", by_title)
    ranked = {title: found for title, found in by_title.items() if means(found)}
    pictures = []
    if ranked:
        _draw_accuracy(out / "accuracy.png", ranked)
        pictures = ["![accuracy by rank](accuracy.png)", ""]
    drawn = _draw_loss(out / "loss.png", records, folders)
    pictures += [f"Validation loss ({drawn}):", "", "![validation loss](loss.png)", ""]
    missing = [name for name, record in records.items() if not record]
    text = [
        "# LoRA's rank on a trained translator",
        "",
        f"    {command}",
        "",
        describe_base(base),
        _settings(records),
        "",
        *[f"- {line}" for line in findings(by_title)],
        *([f"- Not in the figures: {study.listed(missing)}."] if missing else []),
        "",
        "Accuracy on the test split in per cent, exact match of the whole answer: mean ± standard deviation over the "
        "seeds / the paper's Table 1. Seconds of training include its evaluations.",
        "",
    ]
    for title, found in by_title.items():
        text += [f"## {title}", "", table(found)]
    (out / "README.md").write_text("\n".join([*text, *pictures]), encoding="utf-8")


def describe_base(workdir):
    """What the base was trained on, and how good it is, from its own files."""
    if not os.path.exists(os.path.join(workdir, "config.json")):
        return f"Base: `{workdir}`."
    config = run_config.read(workdir)
    saved = checkpoint.of_run(workdir, config)
    step = saved.best_step() or saved.last_step()
    figures = saved.metrics(step) if step else {}
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items() if isinstance(value, float))
    return f"Base: `{workdir}`, trained on `{config.data.train}`, checkpoint {step} of {config.steps} steps ({shown})."


def _settings(records):
    found = [record for record in records.values() if record]
    steps = ", ".join(f"{steps:,}" for steps in sorted({record["steps"] for record in found}))
    rates = {}
    for record in found:
        arguments = record["arguments"]
        rates.setdefault(title_of(arguments), {})[arguments.get("rank", 0)] = record["learning_rate"]
    machines = ", ".join(sorted({record["hardware"] for record in found}))
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


def _write_csv(path, by_title):
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["method", "rank", "metric", "mean", "deviation", "seeds", "paper"])
        for title, rows in by_title.items():
            ranked = "rank" in rows[0]["overrides"]
            for rank, line in results.cells(rows, index="rank" if ranked else "method", columns="metric").items():
                for metric, cell in line.items():
                    numbers = (cell.mean, cell.deviation if cell.count > 1 else "", cell.count)
                    lines.writerow([title, rank if ranked else "", metric, *numbers, cell.paper])


def _draw_accuracy(path, ranked):
    percent = lambda values: [100 * value for value in values]  # noqa: E731
    plots.ranks(
        {title: {rank: percent(values) for rank, values in accuracies(rows).items()} for title, rows in ranked.items()},
        path,
        parameters={
            title: {row["overrides"]["rank"]: row["value"] for row in rows if row["metric"] == "trainable"}
            for title, rows in ranked.items()
        },
        paper={rank: 100 * figures["exact_match"] for rank, figures in PAPER.items()},
        title="Accuracy over all tasks",
    )


def _draw_loss(path, records, folders):
    """Curves of the first method's ranks, one seed; returns what is shown."""
    done = {name: record["arguments"] for name, record in records.items() if record}
    first = next(iter(done.values()))
    alike = {n: a for n, a in done.items() if title_of(a) == title_of(first) and a["seed"] == first["seed"]}
    plots.learning_curves(
        {f"rank {a['rank']}" if "rank" in a else title_of(a): folders[name] for name, a in alike.items()}, path
    )
    return f"{title_of(first)}, seed {first['seed']}"
