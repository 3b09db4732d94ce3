"""The page on LoRA with approximate gradients, made from the runs' records."""

import re
import statistics

from lwt.attention.parts import approximation_check
from lwt.report import line_names, pages, results, style

METRIC, EXACT = "accuracy", "exact"
BASE = "base"  # the run that all others adapt
ABOUT = """\
The base is a BERT of 2 MB with ten heads of width 8, trained on Emotion. It is frozen, and LoRA of rank 8 on query, key
and value learns Snips for two epochs at one rate, with a new head. Accuracy is that of the best checkpoint on the test
set, in per cent: mean ± standard deviation over the seeds.

"Logit b": the query and key weights of the base were scaled until its largest logit on a batch was b, and queries and
keys are clipped in training so that no logit exceeds b. "Degree g" has an exact forward pass, and gradients by a
polynomial of degree g; "both ways" has an approximate forward pass, too. Weights of an even degree are positive; those
of a query can sum to almost nothing at an odd degree with large logits, and its gradient is then far too large.

"Error" is the relative error of the attention weights at that degree, on a batch after training (of a run that
diverged: as it was left): the largest of the layers, mean over the seeds. "!" marks errors above {percent:g} %, where
the approximation counts as invalid.
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
    report.add(pages.effort(adapted) + ".")
    missing = [name for name in missing if name != BASE]
    report.add(pages.bullets([*findings(accuracy), *pages.notes(records, missing=missing)]))
    header = ["gradient", *(f"logit {bound}" for bound in bounds), *(f"error, logit {bound}" for bound in bounds)]
    body = [
        [
            spoken(method),
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
            yield f"{spoken(method).capitalize()} compared with exact gradients, in points: {', '.join(gaps)}."


def spoken(method):
    """``"degree 2, both ways"`` for ``"degree2_both_ways"``."""
    return re.sub(r"(\d)", r" \1", method).replace("_", ", ", 1).replace("_", " ")


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
            ends[spoken(method)] = (order[-1], means[-1], style.look(i)["color"])
        style.log_x(axes, "largest logit of the base")
        axes.set(ylabel="accuracy (%)", ylim=(0, 100))
        line_names.put(axes, ends, gap=0.07)
