"""The page on LoRA with approximate gradients, made from the runs' records."""

import pathlib
import statistics

from lwt.attention.parts import approximation_check
from lwt.report import plots, results, study

METRIC, EXACT = "accuracy", "exact"
ABOUT = """\
Accuracy on the test set (%), mean ± standard deviation over the seeds, of the best checkpoint. "logit b": the base's
largest logit on a batch, to which its query and key weights were scaled before it was adapted, and the bound on all
logits from then on. Error: of the attention weights at the degree of the run's gradient, on a batch at the end of
training (of a run that went wrong: as it was left), largest of the layers, mean over the seeds; above {percent:g} %
("!") the approximation is said not to hold.
"""


def rows_of(records, *, command):
    """Rows for ``results.json``: accuracy, largest logit and error of every adapted run."""
    rows = []
    for record in records.values():
        if "method" in record["arguments"]:
            fixed = results.of_run(record, command=command)
            figures = {METRIC: record["figures"][METRIC]} | record["logits"]
            rows += [fixed | {"metric": name, "value": value} for name, value in figures.items()]
    return rows


def values_of(rows, metric):
    """``{method: {bound: [value of every seed]}}``."""
    found = {}
    for row in rows:
        if row["metric"] == metric:
            line = found.setdefault(row["overrides"]["method"], {})
            line.setdefault(row["overrides"]["bound"], []).append(row["value"])
    return found


def write(out, records, *, missing, command):
    """Writes README.md, results.json and accuracy.png into the folder `out`; returns their names.

    Args:
        records: ``{name: what approximate_lora kept of the run}``.
        missing: names of runs that were asked for and have no record.
    """
    out, rows = pathlib.Path(out), rows_of(records, command=command)
    results.write(out / "results.json", rows)
    accuracy, error = values_of(rows, METRIC), values_of(rows, "error")
    bounds = sorted({bound for line in accuracy.values() for bound in line})
    hours = sum(record["seconds"] for record in records.values()) / 3600
    machines = "; ".join(sorted({record["hardware"] for record in records.values()}))
    text = ["# LoRA with approximate gradients", "", f"    {command}", ""]
    text += [f"{len(records)} runs in {hours:.1f} hours on {machines}.", ""]
    text += [f"- {line}" for line in findings(accuracy)]
    text += [f"- Not in the figures: {study.listed(missing)}."] if missing else []
    header = ["gradient", *(f"logit {bound}" for bound in bounds), *(f"error, logit {bound}" for bound in bounds)]
    body = [
        [
            method,
            *(_accuracy(line.get(bound)) for bound in bounds),
            *("–" if method == EXACT else _error(error[method].get(bound)) for bound in bounds),
        ]
        for method, line in accuracy.items()
    ]
    text += ["", ABOUT.format(percent=100 * approximation_check.TOLERANCE), results.markdown(header, body)]
    text += ["![accuracy over the base's largest logit](accuracy.png)", ""]
    (out / "README.md").write_text("\n".join(text), encoding="utf-8")
    _draw(out / "accuracy.png", accuracy)
    return ["README.md", "results.json", "accuracy.png"]


def findings(accuracy):
    """Sentences: every approximation beside exact gradients, base by base."""
    for method, line in accuracy.items():
        gaps = [
            f"{100 * (statistics.fmean(values) - statistics.fmean(accuracy[EXACT][bound])):+.2f} at logit {bound}"
            for bound, values in sorted(line.items())
            if method != EXACT and bound in accuracy.get(EXACT, {})
        ]
        if gaps:
            yield f"{method} beside exact gradients: {', '.join(gaps)} (points)."


def _accuracy(values):
    if not values:
        return "–"
    spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.2f}{spread}"


def _error(values):
    if not values:
        return "–"
    mean = statistics.fmean(values)
    return f"{100 * mean:.2g} %" + (" !" if mean > approximation_check.TOLERANCE else "")


def _draw(path, accuracy):
    with plots.drawing(path, "") as (_, axes):
        for i, (method, line) in enumerate(accuracy.items()):
            look = dict(color=plots.COLORS[i % len(plots.COLORS)], marker=plots.MARKERS[i % len(plots.MARKERS)])
            order = sorted(line)
            spread = [100 * statistics.stdev(line[b]) if len(line[b]) > 1 else 0.0 for b in order]
            means = [100 * statistics.fmean(line[b]) for b in order]
            axes.errorbar(order, means, spread, label=method, capsize=3, elinewidth=1.2, **look)
        plots.log_x(axes, "largest logit of the base (logarithmic)")
        axes.set(ylabel="accuracy (%)")
        axes.legend()
