"""The page of `studies.lighter.compression`: a table of all cuts, a picture, and the searches."""

import math

from lwt import errors
from lwt.report import pages, plots, results, searched
from studies.lighter import cuts

LOST = 2  # points of quality that a method may lose in the picture
HOW_TO_READ = """\
"As cut" is the quality right after the cut, "trained" the quality after retraining, for the same number of epochs with
every cut. Gradual pruning cuts during this training. A student is a narrower model that is trained from scratch for as
many epochs as the base, so its budget is larger; a distilled one also learns from the base's outputs. Every rate is the
best of three on the validation set, with seed 0 and half of the training. Figures are means ± standard deviations.
"Difference" is relative to the base of the same seed, in points, and n is the number of seeds.

"Left" is the share of the base's kernel values that remain: values that are not 0, or values of the factors. Embedding
tables, biases and norms are not counted. Zeros in place of weights save no bytes; the removal of heads or units,
factors and narrower models do. For every method, the picture shows the strongest cut whose quality on the test set is
within {lost} points of the base's.
"""


def rows_of(records, *, command_line):
    """Rows for ``results.json``: quality as cut and trained, share left, and bytes of every point."""
    rows = []
    for record in records:
        fixed = results.of_run(record | {"figures": {"data": record["data"]}}, command_line=command_line)
        values = {record["metric"]: record["trained"], f"{record['metric']}_as_cut": record["cut"]}
        values |= {"base": record["whole"]} | {key: record[key] for key in ("left", "bytes")}
        rows += [fixed | {"metric": name, "value": value} for name, value in values.items() if value is not None]
    return rows


def by_point(records):
    """``{(method, strength): [records of the seeds]}``, in the order of `cuts.METHODS`."""
    groups = {}
    for name, method in cuts.METHODS.items():
        own = [record for record in records if record["arguments"]["method"] == name]
        for strength, same in searched.grouped(own, order=method.labels(), by="strength").items():
            groups[name, strength] = same
    return groups


def table(records, factor):
    """The Markdown table of the points."""
    body = []
    for (name, strength), own in by_point(records).items():
        method, first = cuts.METHODS[name], own[0]
        cut = "–" if first["cut"] is None else results.Cell.of([record["cut"] for record in own], scale=factor).short(2)
        trained = results.Cell.of([record["trained"] for record in own], scale=factor)
        gap = results.Cell.of([record["trained"] - record["whole"] for record in own], scale=factor)
        body.append(
            [
                method.title,
                f"{method.argument} {strength}",
                f"{first['left']:.1%}",
                f"{first['bytes']:,}",
                cut,
                trained.text(2),
                gap.short(2, sign="+"),
                f"{sum(record['seconds'] for record in own) / 60 / len(own):.1f}",
            ]
        )
    header = ["method", "strength", "left", "bytes", "as cut", "trained", "difference", "training, min"]
    return results.markdown(header, body)


def draw(path, records):
    """Draws how few kernel values every method leaves at a loss of at most `LOST` points, and the quality there."""
    metric, unit, factor = results.named(records[0]["metric"])
    whole, lines = results.Cell.of(list(by_seed(records).values()), scale=factor).mean, {}
    for (name, _), own in by_point(records).items():
        trained = [factor * record["trained"] for record in own]
        gap = results.Cell.of([record["trained"] - record["whole"] for record in own], scale=factor).mean
        line = lines.setdefault(cuts.METHODS[name].title, {})
        if gap >= -LOST and 100 * own[0]["left"] < line.get("left", math.inf):
            cut = [factor * record["cut"] for record in own if record["cut"] is not None]
            line.clear()
            line |= {"left": 100 * own[0]["left"], "trained": trained} | ({"cut": cut} if cut else {})
    order = sorted(lines, key=lambda title: lines[title].get("left", math.inf))
    title = f"The fewest numbers at which each method loses at most {LOST} points of {whole:.1f}{unit} {metric}"
    columns = {"left": ("left in kernels (%)", 0), "cut": ("as cut", 1), "trained": ("retrained", 1)}
    plots.rows({title: lines[title] for title in order}, path, columns=columns, title=title)


def by_seed(records):
    """``{seed: quality of its base}``.

    Raises:
        lwt.errors.ConfigError: points of a seed have several bases.
    """
    bases = {}
    for record in records:
        bases.setdefault(record["arguments"]["seed"], {})[record["base"]] = record["whole"]
    for seed, found in bases.items():
        if len(found) > 1:
            raise errors.ConfigError(
                f"the workdir holds points of seed {seed} with the bases {pages.listed(sorted(found))}; "
                "a seed has one base in a workdir"
            )
    return {seed: next(iter(bases[seed].values())) for seed in sorted(bases)}


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json and compression.png into the folder `out`; see `study.main`.

    Raises:
        lwt.errors.ConfigError: as `by_seed`.
    """
    points, searches = searched.parted(records)
    wholes, bases = by_seed(points), sorted({record["base"] for record in points})
    page = pages.Page(out, "What compression costs", command_line=command_line)
    page.rows(rows_of(points, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)))
    if points:
        label, factor = results.shown(points[0]["metric"])
        name, unit, _ = results.named(points[0]["metric"])
        several = len(bases) > 1
        page.add(
            f"The {'bases' if several else 'base'}, `{', '.join(bases)}`, {'have' if several else 'has'} "
            f"{results.Cell.of(list(wholes.values()), scale=factor).short(2)}{unit} {name} on `{points[0]['data']}`. "
            f"Cuts and students: {pages.effort(points)}, without the searches.",
            HOW_TO_READ.format(lost=LOST),
        )
        draw(page.picture("compression.png", "the strongest cut of each method, and its quality"), points)
        page.add(table(points, factor))
    if searches:
        labels = {
            "method": lambda record: cuts.METHODS[record["arguments"]["method"]].title,
            "strength": lambda record: record["arguments"]["strength"],
        }
        page.add("## Searches", searched.about(searches), searched.table(searches, labels=labels))
    return page.write()
