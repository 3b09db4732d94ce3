"""The page of the rank study, made from the runs' records: tables, plots and sentences."""

import statistics

from lwt.inspect import spectra
from lwt.report import pages, plots, results
from studies.lora_ranks import rates
from studies.lora_ranks import rows as tables

HOW_TO_READ = """\
Accuracy on the test split in per cent, exact match of the whole answer: mean ± standard deviation over the seeds. \
LoRA has α/r = 1 at every rank; "LoRA, α = 1" scales by 1/r, and rsLoRA by 16/√r. "Trained" is at rank 8.
"""


def write(out, records, *, missing, command_line):
    """Writes README.md, results.json, table.csv and its pictures into the folder `out`; see `study.main`.

    `records` are those of searches and runs.
    """
    searches = {name: record for name, record in records.items() if "tried" in record}
    trained = {name: record for name, record in records.items() if name not in searches}
    runs = {name: record for name, record in trained.items() if "steps" not in record["arguments"]}
    page = pages.Page(out, "LoRA's rank on a trained translator", command_line=command_line)
    every = page.rows(tables.rows_of(trained, command_line=command_line))
    rows = [row for row in every if "steps" not in row["overrides"]]
    methods = tables.by_method(rows)
    page.csv("table.csv", csv_table(rows))
    page.add(f"{describe_base(next(iter(runs.values()))['base'])}\n{_settings(runs.values())}")
    page.add(pages.bullets([*findings(methods), *longer(every), *pages.notes(records, missing=missing)]))
    page.add(HOW_TO_READ, table(methods))
    _draw_accuracy(page.picture("accuracy.png", "accuracy by rank"), methods)
    if any(tables.RATIO_RANK in ranks for ranks in by_rank(methods, variants_of(methods)).values()):
        _draw_variants(page.picture("variants.png", "accuracy by rank of LoRA's variants"), methods)
    page.add(
        "## Against the paper's Table 1", "Ours / the paper's, in per cent.", beside_the_paper(methods[tables.PLAIN])
    )
    page.add("## The rates", rates.rates_text(searches), rates.rates_table(searches))
    rates.draw(page.picture("rates.png", "accuracy by rate"), searches)
    page.add("## LoRA+: the ratio of the rates", rates.ratio_table(rows, runs, searches))
    page.add("## What the report claims", pages.bullets(rates.claims(methods, runs, searches)))
    return page.write()


def table(methods):
    """The Markdown table of all methods: accuracy over all tasks, a column for each rank."""
    ranks = sorted({rank for rows in methods.values() for rank in tables.values_of(rows) if rank})
    header = ["method", "trained", *(f"rank {rank}" for rank in ranks), "no rank", "seeds"]
    body = []
    for title, rows in methods.items():
        found, trained = tables.values_of(rows), tables.means(rows, "trainable")
        shown = trained.get(tables.RATIO_RANK, next(iter(trained.values())))
        seeds = sorted({len(values) for values in found.values()})
        count = "–".join(str(number) for number in dict.fromkeys((seeds[0], seeds[-1])))
        body.append([title, f"{shown:,.0f}", *(results.percent(found.get(rank)) for rank in (*ranks, None)), count])
    return results.markdown(header, body)


def beside_the_paper(rows):
    """LoRA's accuracy by task beside the paper's."""
    header = ["rank", "trained", *tables.METRICS.values()]
    by_metric = {metric: tables.values_of(rows, metric) for metric in tables.METRICS}
    trained, body = tables.means(rows, "trainable"), []
    for rank, paper in tables.PAPER.items():
        if rank in trained:
            cells = [
                f"{results.percent(by_metric[metric].get(rank))} / {100 * paper[metric]:g}" for metric in tables.METRICS
            ]
            body.append([str(rank), f"{trained[rank]:,.0f} / {paper['trainable'] / 1e3:g}k", *cells])
    return results.markdown(header, body)


def findings(methods):
    """Sentences that sum up the figures."""
    lines = []
    for title, rows in methods.items():
        points = {rank: value for rank, value in tables.means(rows).items() if rank}
        if len(points) > 1:
            lines.append(f"{title} {reached(points)}. {elbow_text(points)}")
    paper = {rank: figures["exact_match"] for rank, figures in tables.PAPER.items()}
    elbow = "The elbow of a curve is its point farthest above the line between its ends; it need not flatten there."
    return [*lines, f"LoRA in the paper {reached(paper)}. {elbow_text(paper)}", elbow]


def reached(points):
    """The end of a sentence: the lowest rank with 95 %, or else the best accuracy."""
    high, best = [rank for rank in points if points[rank] >= 0.95], max(points, key=points.get)
    return f"first reaches 95 % at rank {min(high)}" if high else f"reaches {100 * points[best]:.1f} % with rank {best}"


def longer(rows):
    """A sentence on the runs that had more steps than the others."""
    found = {}
    for row in rows:
        if "steps" in row["overrides"] and row["metric"] == "exact_match":
            about = row["overrides"]
            found.setdefault((tables.title_of(about), about["rank"], about["steps"]), []).append(row["value"])
    return [
        f"With {steps:,} steps, {title} of rank {rank} reaches {results.percent(values)} % "
        f"({'one seed' if len(values) == 1 else f'{len(values)} seeds'})."
        for (title, rank, steps), values in found.items()
    ]


def enough(points, *, margin=0.01):
    """The lowest rank that no other rank beats by more than `margin`."""
    best = max(points.values())
    return min(rank for rank, accuracy in points.items() if accuracy >= best - margin - 1e-9)


def elbow_text(points):
    """Sentences on where the curve ``{rank: accuracy}`` has its elbow, and which rank is enough."""
    if max(points.values()) < 0.5:
        return "No rank solves half of the tasks."
    bend = spectra.elbow(points)
    found = f"The elbow of its curve is rank {bend}." if bend else ""
    return f"{found} Rank {enough(points)} is the lowest within 1 point of the best.".strip()


def describe_base(base):
    """A sentence that says what the base was trained on and how good it is; `base` is from `study.measure_base`."""
    trained = f"Base: `{base['workdir']}`, trained on `{base['data']}` for {base['steps']:,} steps"
    if not base["checkpoint"]:  # a bundle has weights alone
        return f"{trained}."
    shown = ", ".join(f"{name} {value:.4g}" for name, value in base["figures"].items())
    return f"{trained}, checkpoint {base['checkpoint']} ({shown})."


def _settings(records):
    steps = ", ".join(f"{steps:,}" for steps in sorted({record["steps"] for record in records}))
    return f"Adapters: {steps} steps each. Hardware: {pages.machines(records)}; {pages.hours(records)} of training."


def csv_table(rows):
    """Header and lines of ``table.csv``."""
    groups = {}
    for row in rows:
        about = row["overrides"]
        key = (tables.title_of(about), about.get("rank", ""), about.get("ratio", ""), row["metric"])
        groups.setdefault(key, []).append(row["value"])
    body = [
        [*key, statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else "", len(values)]
        for key, values in groups.items()
    ]
    return ["method", "rank", "ratio", "metric", "mean", "deviation", "seeds"], body


def _draw_accuracy(path, methods):
    """LoRA and the two methods of which the report makes claims, over the rank and over the trained parameters."""
    series = by_rank(methods, tables.CLAIMED)
    method, rank, best = best_of(series)
    plots.ranks(
        series,
        path,
        parameters={title: tables.means(methods[title], "trainable") for title in series},
        paper={rank: 100 * figures["exact_match"] for rank, figures in tables.PAPER.items()},
        title=f"{method} of rank {rank} answers {best:.0f} % of the arithmetic tasks exactly "
        f"(dashed: {tables.PLAIN} in the paper)",
    )


def _draw_variants(path, methods):
    """LoRA and its variants with another scale, another start or a magnitude, over the rank."""
    plain, variants = (by_rank(methods, titles) for titles in ([tables.PLAIN], variants_of(methods)))
    rank = tables.RATIO_RANK
    method, _, best = best_of({title: {rank: ranks[rank]} for title, ranks in variants.items() if rank in ranks})
    title = f"At rank {rank}, {method} answers {best:.0f} % of the arithmetic tasks, {tables.PLAIN} "
    plots.ranks(plain | variants, path, title=title + f"{100 * tables.means(methods[tables.PLAIN])[rank]:.0f} %")


def variants_of(methods):
    """The titles of the methods that differ from LoRA by a scale, a start or a magnitude."""
    return [title for title in methods if title not in tables.CLAIMED]


def by_rank(methods, titles):
    """``{title: {rank: values of the seeds, in per cent}}`` of those of `titles` that have several ranks."""
    found = {title: tables.values_of(methods[title]) for title in titles if title in methods}
    return {
        title: {rank: [100 * value for value in values] for rank, values in ranks.items()}
        for title, ranks in found.items()
        if len(ranks) > 1
    }


def best_of(series):
    """``(method, rank, mean)`` of the highest mean."""
    means = [
        (method, rank, statistics.fmean(values)) for method, ranks in series.items() for rank, values in ranks.items()
    ]
    return max(means, key=lambda mean: mean[2])
