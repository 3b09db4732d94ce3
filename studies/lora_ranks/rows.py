"""The rows of the rank study: the figures of all runs, and how they are grouped and shown.

Source of the figures beside ours: "Implementing Transformers", Table 1.
"""

import statistics

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
PLAIN = "LoRA"
TITLES = {
    "lora one": PLAIN,
    "lora alpha/r": "LoRA, α = 1",
    "rslora": "rsLoRA",
    "lora_plus": "LoRA+",
    "singlora": "SingLoRA",
    "dora": "DoRA",
    "pissa": "PiSSA",
    "olora": "OLoRA",
    "bitfit": "BitFit",
    "full": "full fine-tuning",
}
CLAIMED = (PLAIN, TITLES["lora_plus"], TITLES["singlora"])  # the report makes claims of the last two
RATIO_RANK = 8


def rows_of(records, *, command_line):
    """Rows for ``results.json``: accuracies over all tasks and by task, and the trainable weights, of every run."""
    rows = []
    for record in records.values():
        arguments, figures = dict(record["arguments"]), record["figures"]
        arguments |= {"ratio": record["ratio"]} if arguments["method"] == "lora_plus" else {}
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
        paper = PAPER.get(arguments.get("rank"), {}) if title_of(arguments) == PLAIN else {}
        for metric, value in (values | {"trainable": record["parameters"]["trainable"]}).items():
            rows.append(fixed | {"metric": metric, "value": value, "paper": paper.get(metric)})
    return rows


def title_of(arguments):
    """What a method is called in tables and plots."""
    name = " ".join(str(arguments[key]) for key in ("method", "scaling") if key in arguments)
    return TITLES.get(name, name)


def by_method(rows):
    """``{title: rows}`` in the order of the rows; LoRA+ has the one ratio that its other ranks have."""
    ratios = {row["overrides"]["ratio"] for row in rows if row["overrides"].get("rank") not in (None, RATIO_RANK)
              and "ratio" in row["overrides"]}  # fmt: skip
    found = {}
    for row in rows:
        if row["overrides"].get("ratio") in (None, *ratios):
            found.setdefault(title_of(row["overrides"]), []).append(row)
    return found


def values_of(rows, metric="exact_match"):
    """``{rank: [value of every seed]}`` of one method; the rank of a method without one is None."""
    found = {}
    for row in rows:
        if row["metric"] == metric:
            found.setdefault(row["overrides"].get("rank"), []).append(row["value"])
    return dict(sorted(found.items(), key=lambda item: item[0] or 0))


def means(rows, metric="exact_match"):
    """``{rank: mean}`` of one method; see `values_of`."""
    return {rank: statistics.fmean(values) for rank, values in values_of(rows, metric).items()}


def number(value):
    """A rate with three digits, or a number of steps; "–" for None."""
    return "–" if value is None else f"{value:.3g}" if value < 1 else f"{value:,.0f}"
