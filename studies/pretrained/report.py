"""The page of the study of a pretrained encoder, made from the runs' records."""

import statistics

from lwt.report import pages, results

TITLES = {"lwt": "lwt", "peft": "PEFT"}
RANK = 8
RECORDS = 2_000  # of the training set, the same on both sides
CHOSEN_ON = 500  # records of the validation set, after every epoch
EPOCHS = 2.0
WARM = 50  # steps before speed is measured: lwt compiles a program for each length of a row
HOW_TO_READ = f"""\
LoRA of rank {RANK} on every linear layer of the encoder, and a new head, learn from {RECORDS:,} texts in
{EPOCHS:g} epochs. The rate was not searched. The checkpoint is that of the epoch with the best Matthews correlation on
{CHOSEN_ON} validation records.

Accuracy is that on the test split, and "validation" that on the validation split, in per cent: mean ± standard
deviation over the seeds. Texts a second are counted after the first {WARM} steps, without evaluations. "Training" is
the time of all steps, with lwt's compilation and the evaluations of both sides.
"""


def write(out, records, *, base, missing, command_line):
    """Writes README.md, results.json and table.csv into the folder `out`; see `study.main`.

    Args:
        base: the encoder.
    """
    page = pages.Page(out, "LoRA of a pretrained encoder, compared with PEFT", command_line=command_line)
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
    header = ["task", "rate", "side", "seeds", "accuracy", "validation", "trained weights", "texts/s", "training, s"]
    body = []
    for (task, rate, side), own in _groups(rows).items():
        cells = {name: results.Cell.of(values) for name, values in own.items()}
        shown = [
            results.percent(own["accuracy"], digits=2),
            results.percent(own["validation accuracy"], digits=2),
            f"{cells['trainable'].mean:,.0f}",
            _number(cells["texts_per_second"]),
            _number(cells["seconds"]),
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
        whole = [statistics.fmean(side["seconds"]) for side in (own, other)]
        sentence = f"{task}, rate {rate:g}: lwt's accuracy differs from PEFT's by {difference:+z.2f} points"
        if min(len(ours), len(theirs)) > 1:
            noise = (statistics.variance(ours) / len(ours) + statistics.variance(theirs) / len(theirs)) ** 0.5
            sentence += f" (standard error of the difference {100 * noise:.2f})"
        found.append(
            f"{sentence}; after the first steps, lwt trains {speed:.2f} times as many texts per second. The whole "
            f"training takes {whole[0]:.0f} s in lwt, which compiles programs first, and {whole[1]:.0f} s in PEFT."
        )
    return found


def describe(records, *, base):
    """A sentence that says what was trained and where."""
    first = next(iter(records.values()))
    versions = next((record["versions"] for record in records.values() if "versions" in record), {})
    used = ", ".join(f"{name} {version}" for name, version in versions.items())
    steps = ", ".join(f"{steps:,}" for steps in sorted({record["steps"] for record in records.values()}))
    name = base or first["config"].partition("base=")[2].partition(",")[0]
    return (
        f"The base is `{name}`. Both sides train for {steps} steps on the same batches, in float32, with {used}, on "
        f"{pages.machines(records.values())}; the runs took {pages.hours(records.values())} together."
    )


def _groups(rows):
    """``{(task, rate, side): {metric: values}}``, seconds too, the two sides of a setting beside each other."""
    found = {}
    for row in rows:
        key = tuple(row["overrides"][name] for name in ("task", "rate", "side"))
        own = found.setdefault(key, {})
        own.setdefault(row["metric"], []).append(row["value"])
        if row["metric"] == "accuracy":  # once a run
            own.setdefault("seconds", []).append(row["seconds"])
    return dict(sorted(found.items()))


def _number(cell):
    return cell.short(0)
