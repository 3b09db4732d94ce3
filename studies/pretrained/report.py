"""The page of the study of a pretrained encoder, made from the runs' records."""

import statistics

from lwt.report import pages, results

TITLES = {"lwt": "lwt", "peft": "PEFT"}
HOW_TO_READ = """\
Accuracy on the test split in per cent and training speed in texts per second (behind the first 50 steps, without \
evaluations): mean ± standard deviation over the seeds. "Validation" is the accuracy by which a rate is chosen.
"""


def write(out, records, *, base, missing, command_line):
    """Writes README.md, results.json and table.csv into the folder `out`; see `study.main`.

    Args:
        base: the encoder.
    """
    page = pages.Page(out, "LoRA of a pretrained encoder, beside PEFT", command_line=command_line)
    rows = page.rows(rows_of(records, command_line=command_line))
    header, body = table(rows)
    page.csv("table.csv", (header, body))
    page.add(describe(records, base=base), pages.bullets([*findings(rows), *pages.notes(records, missing=missing)]))
    page.add(HOW_TO_READ, results.markdown(header, body))
    return page.write()


def rows_of(records, *, command_line):
    """Rows for ``results.json``: accuracies, trained weights and speed of every run."""
    rows = []
    for record in records.values():
        fixed = results.of_run(record, command_line=command_line)
        validation = {"split": record["validation"].get("data", "validation")}
        rows += [
            fixed | {"metric": "accuracy", "value": record["figures"]["accuracy"]},
            fixed | validation | {"metric": "validation accuracy", "value": record["validation"]["accuracy"]},
            fixed | {"metric": "trainable", "value": record["trainable"]},
            fixed | {"metric": "texts_per_second", "value": record["texts_per_second"]},
        ]
    return rows


def table(rows):
    """Header and lines: a line for every task, rate and side."""
    header = ["task", "rate", "side", "seeds", "accuracy", "validation", "trained", "texts/s"]
    body = []
    for (task, rate, side), own in _groups(rows).items():
        cells = {name: results.Cell.of(values) for name, values in own.items()}
        shown = [
            results.percent(own["accuracy"], digits=2),
            results.percent(own["validation accuracy"], digits=2),
            f"{cells['trainable'].mean:,.0f}",
            _number(cells["texts_per_second"]),
        ]
        body.append([task, f"{rate:g}", TITLES[side], str(cells["accuracy"].count), *shown])
    return header, body


def findings(rows):
    """Sentences: for every task and rate the difference of accuracy beside its spread, and the ratio of speed."""
    groups, found = _groups(rows), []
    for (task, rate, side), own in groups.items():
        other = groups.get((task, rate, "peft"))
        if side != "lwt" or not other:
            continue
        ours, theirs = own["accuracy"], other["accuracy"]
        difference = 100 * (statistics.fmean(ours) - statistics.fmean(theirs))
        speed = statistics.fmean(own["texts_per_second"]) / statistics.fmean(other["texts_per_second"])
        sentence = f"{task}, rate {rate:g}: lwt's accuracy is {difference:+z.2f} points from PEFT's"
        if min(len(ours), len(theirs)) > 1:
            noise = (statistics.variance(ours) / len(ours) + statistics.variance(theirs) / len(theirs)) ** 0.5
            sentence += f" (standard error of the difference {100 * noise:.2f})"
        found.append(f"{sentence}; lwt trains {speed:.2f} times as many texts per second.")
    return found


def describe(records, *, base):
    """A sentence that says what was trained and where."""
    first = next(iter(records.values()))
    versions = next((record["versions"] for record in records.values() if "versions" in record), {})
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    steps = ", ".join(f"{steps:,}" for steps in sorted({record["steps"] for record in records.values()}))
    name = base or first["config"].partition("base=")[2].partition(",")[0]
    return (
        f"Base: `{name}`. {steps} steps each, the same batches on both sides, float32. {used}. "
        f"Hardware: {pages.machines(records.values())}; {pages.hours(records.values())} of training."
    )


def _groups(rows):
    """``{(task, rate, side): {metric: values}}``, the two sides of a setting beside each other."""
    found = {}
    for row in rows:
        key = tuple(row["overrides"][name] for name in ("task", "rate", "side"))
        found.setdefault(key, {}).setdefault(row["metric"], []).append(row["value"])
    return dict(sorted(found.items()))


def _number(cell):
    spread = f" ± {cell.deviation:.0f}" if cell.count > 1 else ""
    return f"{cell.mean:.0f}{spread}"
