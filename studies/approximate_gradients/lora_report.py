"""The page on LoRA with approximate gradients, made from the runs' records."""

import re
import statistics

from lwt.attention.parts import approximation_check
from lwt.report import line_names, pages, results, style

METRIC, EXACT = "accuracy", "exact"
BASE = "base"  # the run that all others adapt
ABOUT = """\
Accuracy on the test set (%), mean ± standard deviation over the seeds, of the best checkpoint. "logit b": the base's
largest logit on a batch, to which its query and key weights were scaled before it was adapted, and the bound on all
logits from then on. Error: of the attention weights at the degree of the run's gradient, on a batch at the end of
training (of a run that went wrong: as it was left), largest of the layers, mean over the seeds; above {percent:g} %
("!") the approximation is said not to hold.
"""


def rows_of(records, *, command_line):
    """Rows for ``results.json``: accuracy, largest logit and error of every adapted run."""
    rows = []
    for record in records.values():
        if "method" in record["arguments"]:
            fixed = results.of_run(record, command_line=command_line)
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


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and accuracy.png into the folder `out`; see `study.main`.

    The record of the base has no "method" among its arguments.
    """
    report = pages.Page(out, "LoRA with approximate gradients", command_line=command_line)
    rows = report.rows(rows_of(records, command_line=command_line))
    accuracy, error = values_of(rows, METRIC), values_of(rows, "error")
    bounds = sorted({bound for line in accuracy.values() for bound in line})
    adapted = [record for record in records.values() if "method" in record["arguments"]]
    report.add(f"{len(adapted)} runs in {pages.hours(adapted)} on {pages.machines(adapted)}.")
    missing = [name for name in missing if name != BASE]
    report.add(pages.bullets([*findings(accuracy), *pages.notes(records, missing=missing)]))
    header = ["gradient", *(f"logit {bound}" for bound in bounds), *(f"error, logit {bound}" for bound in bounds)]
    body = [
        [
            method,
            *(results.percent(line.get(bound), digits=2) for bound in bounds),
            *("–" if method == EXACT else _error(error[method].get(bound)) for bound in bounds),
        ]
        for method, line in accuracy.items()
    ]
    report.add(ABOUT.format(percent=100 * approximation_check.TOLERANCE), results.markdown(header, body))
    _draw(report.picture("accuracy.png", "accuracy over the base's largest logit"), accuracy)
    return report.write()


def findings(accuracy):
    """Sentences: every approximation against exact gradients, base by base."""
    for method, line in accuracy.items():
        gaps = [
            f"{100 * (statistics.fmean(values) - statistics.fmean(accuracy[EXACT][bound])):+z.2f} at logit {bound}"
            for bound, values in sorted(line.items())
            if method != EXACT and bound in accuracy.get(EXACT, {})
        ]
        if gaps:
            yield f"{method} against exact gradients: {', '.join(gaps)} (points)."


def _error(values):
    if not values:
        return "–"
    mean = statistics.fmean(values)
    return f"{100 * mean:.2g} %" + (" !" if mean > approximation_check.TOLERANCE else "")


def _draw(path, accuracy):
    with style.drawing(path, "LoRA with approximate gradients, by the largest logit of its base") as (_, axes):
        ends = {}
        for i, (method, line) in enumerate(accuracy.items()):
            order = sorted(line)
            spread = [100 * statistics.stdev(line[b]) if len(line[b]) > 1 else 0.0 for b in order]
            means = [100 * statistics.fmean(line[b]) for b in order]
            axes.errorbar(order, means, spread, capsize=3, elinewidth=1.2, **style.look(i))
            said = re.sub(r"(\d)", r" \1", method).replace("_", ", ", 1).replace("_", " ")
            ends[said] = (order[-1], means[-1], style.look(i)["color"])
        style.log_x(axes, "largest logit of the base")
        axes.set(ylabel="accuracy (%)", ylim=(0, 100))
        line_names.put(axes, ends, gap=0.07)
