"""The page of `studies.lighter.recipe`: what each stage costs and gains."""

import statistics

from lwt.inspect import measuring
from lwt.report import pages, plots, results

HOW_TO_READ = """\
A stage starts from the one above it, but a student starts from scratch (`studies/lighter/recipe.py`). {seeds} Quality
is measured on `{task}`; "difference" is relative to the teacher, in points. Bytes are those of the weights in float32,
of the file of integers, or of what an adapter stores; "share" is their share of the teacher's bytes. "ms" is the time
of one record alone; records a second are counted in batches of {rows}, and "speed-up" is their ratio to the teacher's.
All models took turns on {machine}. "Training" is that of the stage itself, evaluations included.
"""
ONE_SEED = "Everything was run once, with one seed."
SEEDS = """\
Everything was run with {count} seeds, teachers included. Quality and difference are means ± standard deviations, and
training is a mean. Times are those of the first seed's models."""
TRANSLATORS = """\
The trained stages keep the checkpoint with the lowest validation loss. This rule was preferred to the highest
validation BLEU after two runs had been tested both ways, so the figures are not wholly untouched by the test sets. A
translation is decoded to its end, so a model that repeats itself is slow.
"""


def rows_of(stages, *, config, kind, command_line, machine):
    """Rows for ``results.json``."""
    rows = []
    for own in stages:
        fixed = {
            "config": config,
            "overrides": {"recipe": kind, "stage": own["name"]},
            "split": own["task"],
            "paper": None,
            "hardware": machine,
            "seconds": own["seconds"],
            "command": command_line,
        }
        several = len(own["qualities"]) > 1
        for seed, quality in enumerate(own["qualities"]):
            rows.append(fixed | {"seed": seed if several else None, "metric": own["metric"], "value": quality})
        values = {key: own[key] for key in ("parameters", "bytes", "milliseconds", "rate")}
        rows += [fixed | {"seed": None, "metric": key, "value": value} for key, value in values.items()]
    return rows


def table(stages):
    """The Markdown table of the stages, each compared with the teacher."""
    first, body = stages[0], []
    label, factor = results.shown(first["metric"])
    for own in stages:
        same = own["task"] == first["task"]
        quality = results.Cell.of(own["qualities"], scale=factor)
        pairs = zip(own["qualities"], first["qualities"], strict=True)
        gap = results.Cell.of([mine - teachers for mine, teachers in pairs], scale=factor)
        body.append(
            [
                own["name"] if same else f"{own['name']}, on `{own['task']}`",
                quality.short(2),
                gap.short(2, sign="+") if same and own is not first else "–",
                f"{own['parameters']:,}",
                f"{own['bytes']:,}",
                f"{own['bytes'] / first['bytes']:.1%}",
                f"{own['milliseconds']:.2f}",
                f"{own['rate']:,.0f}",
                f"{own['rate'] / first['rate']:.2f}",
                f"{own['seconds'] / 60:,.1f}",
            ]
        )
    header = ["stage", label, "difference", "parameters", "bytes", "share"]
    return results.markdown([*header, "ms", "records/s", "speed-up", "training, min"], body)


def draw(path, stages):
    """Draws quality, size and time of the stages on the teacher's task, one below the other."""
    own = [row for row in stages if row["task"] == stages[0]["task"]]
    label, factor = results.shown(own[0]["metric"])
    lines = {
        row["name"].replace("-", ", "): {
            "quality": [factor * quality for quality in row["qualities"]],
            "size": row["bytes"] / 1e6,
            "time": row["milliseconds"],
        }
        for row in own
    }
    first, last = own[0], own[-1]
    means = [statistics.fmean(row["qualities"]) for row in (first, last)]
    share, change = last["bytes"] / first["bytes"], factor * (means[1] - means[0])
    points = f"{change:+z.1f} {'points' if factor == 100 else label}".replace("-", "−")
    title = f"{share:.0%} of the teacher's bytes, {points}, stage after stage"
    columns = {"quality": (label, 1), "size": ("size (MB)", 1), "time": ("time (ms)", 2)}
    plots.rows(lines, path, columns=columns, title=title, faded=[first["name"]])


def write(out, stages, *, config, kind, command_line, machine):
    """Writes README.md, results.json and recipe.png into the folder `out`; returns their names.

    Args:
        out: folder of the page.
        stages: from `measure`.
        config, kind: the config file with the recipe, and which of its recipes ran.
        machine: that measured.
    """
    page = pages.Page(out, f"The recipe for {kind}", command_line=command_line)
    page.rows(rows_of(stages, config=config, kind=kind, command_line=command_line, machine=machine))
    count = len(stages[0]["qualities"])
    seeds = SEEDS.format(count=count) if count > 1 else ONE_SEED
    about = dict(task=stages[0]["task"], machine=machine, rows=measuring.ROWS, seeds=seeds)
    page.add(
        HOW_TO_READ.format(**about),
        TRANSLATORS if stages[0]["metric"] == "bleu" else "",
        "The adapter learns another task, so its figure stands alone." if stages[-1]["task"] != about["task"] else "",
        table(stages),
    )
    draw(page.picture("recipe.png", "quality from stage to stage"), stages)
    return page.write()
