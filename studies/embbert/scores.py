"""Scores of the EmbBERT-Q study: rows for ``results.json`` from the runs' records, lines of tables from rows."""

import contextlib
import functools
import math
import re
import statistics

from lwt import errors
from lwt.report import pages
from studies.embbert import glue
from studies.embbert import paper as embbert_paper

METRICS = ("accuracy", "mcc", "f1", "f1_weighted", "pearson", "spearman", "loss")
F1 = "f1_weighted"  # what the paper's code computes where its tables say F1
MEANS = {  # of a table's columns -> title
    "average": "mean",
    "without_wnli": "without WNLI",
    "official": "GLUE's rule",
}
GLUE_MEANS = {
    "average": functools.partial(glue.plain_mean, f1=F1),
    "without_wnli": functools.partial(glue.mean_without_wnli, f1=F1),
    "official": glue.official,  # with F1 of the positive class, accuracy and Pearson's correlation where GLUE has them
}


def rows_of(records, *, command_line):
    """Rows for ``results.json``: every figure of every run, with the paper's where it has one; bytes of the files."""
    rows = []
    for record in records.values():
        arguments = dict(record["arguments"])
        fixed = {
            "config": record["config"].partition(":")[0],
            "overrides": arguments,
            "seed": arguments.pop("seed", None),
            "hardware": record["hardware"],
            "seconds": record["seconds"],
            "command": command_line,
        }
        if "task" not in arguments:
            found = {"validation": record["figures"]}
            rows += [fixed | row | {"paper": None} for row in _numbers(found, record["figures"])]
            continue
        for form, found in record["figures"].items():
            for row in _numbers(found, METRICS):
                column = column_of(arguments["task"], row["split"])
                paper = paper_share(arguments, form=form, column=column, metric=row["metric"])
                rows.append(fixed | row | {"overrides": {**arguments, "form": form}, "paper": paper})
        form = {"overrides": {**arguments, "form": embbert_paper.EIGHT_BIT}}
        rows.append(fixed | form | {"split": "none", "metric": "bytes", "value": record["bytes"], "paper": None})
    return rows


def _numbers(found, metrics):
    """Split, metric and value of every finite one of the `metrics` in ``{split: figures}``."""
    for split, figures in found.items():
        for metric in metrics:
            value = figures.get(metric)
            if isinstance(value, int | float) and math.isfinite(value):
                yield {"split": split, "metric": metric, "value": value}


def line_of(arguments):
    """``(model, start)`` of a run's line in a table. Variants that the paper does not have get their own lines."""
    model, start = arguments["model"], arguments["start"]
    return (f"{model}+{start}", "pretrained") if start in embbert_paper.VARIANTS else (model, start)


def file_sizes(rows):
    """``{model: bytes}`` of the eight-bit files, averaged over the runs on own splits, whose heads differ in size."""
    found = {}
    for row in rows:
        if row["metric"] == "bytes" and splits_of(row) == "own":
            found.setdefault(line_of(row["overrides"])[0], []).append(row["value"])
    return {model: round(statistics.fmean(sizes)) for model, sizes in found.items()}


def column_of(task, part):
    """The column of a test set: the task, or for MNLI one of two: ``("mnli", "test_matched")`` -> "mnli_matched"."""
    return f"mnli_{part.rpartition('_')[2]}" if task == "mnli" else task


def metric_of(table, column):
    """The metric that a table of the paper shows in a column."""
    if table.metric != "glue":
        return table.metric
    return F1 if glue.COLUMNS[column] == "f1" else glue.COLUMNS[column]


def paper_share(arguments, *, form, column, metric):
    """The paper's figure for a run, as a share of 1, from its whole tables; None where it has none."""
    model = arguments["model"]
    start = "pretrained" if model in embbert_paper.FROM_SCRATCH else arguments["start"]
    for table in embbert_paper.TABLES.values():
        fits = table.whole and table.start == start and column in table.columns
        if fits and metric_of(table, column) == metric and (model, form) in table.rows:
            return round(table.rows[model, form][column] / 100, 4)
    return None


def splits_of(row):
    """ "own" for the splits that come with the data, "code" for those of the authors' code."""
    return row["overrides"].get("splits", "own")


def collect(rows, *, splits="own"):
    """``{(model, start, form): {seed: {column: {metric: value}}}}`` of the models fine-tuned on these splits."""
    found = {}
    for row in rows:
        given = row["overrides"]
        if "task" in given and row["metric"] in METRICS and splits_of(row) == splits:
            key = *line_of(given), given["form"]
            columns = found.setdefault(key, {}).setdefault(row["seed"], {})
            columns.setdefault(column_of(given["task"], row["split"]), {})[row["metric"]] = row["value"]
    return found


def lines(table, scores):
    """``{(model, form): line}`` of a table of the paper: its own rows and ours; see `line`."""
    found = {}
    for model in dict.fromkeys([*embbert_paper.MODELS, *(key[0] for key in scores)]):
        for form in (embbert_paper.FLOAT, embbert_paper.EIGHT_BIT):
            ours = line(table, scores, model=model, form=form)
            if (model, form) in table.rows or (table.whole and any(ours.values())):
                found[model, form] = ours
    return found


def line(table, scores, *, model, form):
    """``{column: values of the seeds}`` of a model in a table, and the same for `MEANS`.

    A mean is over all of its columns, of one seed: seeds that lack a column have none.
    """
    start = "scratch" if model in embbert_paper.FROM_SCRATCH else table.start
    seeds = [figures for _, figures in sorted(scores.get((model, start, form), {}).items())]
    found = {}
    for column in table.columns:
        values = [figures.get(column, {}).get(metric_of(table, column)) for figures in seeds]
        found[column] = [value for value in values if value is not None]
    averages = [means(table, figures) for figures in seeds]
    return found | {name: [a[name] for a in averages if name in a] for name in means_of(table)}


def means_of(table):
    """The names of the means that are made of a table's columns."""
    return tuple(MEANS) if table.metric == "glue" else ("average",)


def means(table, figures):
    """The means of one seed's ``{column: {metric: value}}``; those that lack a figure are left out."""
    if table.metric != "glue":
        values = [figures.get(column, {}).get(table.metric) for column in table.columns]
        return {} if None in values else {"average": statistics.fmean(values)}
    found = {}
    for name, mean in GLUE_MEANS.items():
        with contextlib.suppress(errors.DataError):
            found[name] = mean(figures)
    return found


def paper_line(table, model, *, form):
    """``{column: share of 1}`` as the paper prints them, its average, and of GLUE the mean without WNLI, from them."""
    printed = {name: round(value / 100, 4) for name, value in table.rows.get((model, form), {}).items()}
    if printed and table.metric == "glue":
        printed["without_wnli"] = statistics.fmean(printed[c] for c in table.columns if c != "wnli")
    return printed


def absent(missing, records):
    """Sentences on the runs without a record: those of which another seed has one, and the settings without any."""
    settings = {_without_seed(name) for name in records}
    runs = [name for name in missing if _without_seed(name) in settings]
    never = {_without_seed(name) for name in missing} - settings
    found = [f"Not in the figures: {pages.listed(runs)}."] if runs else []
    return found + ([f"Further settings of the command, without a run: {len(never):,}."] if never else [])


def _without_seed(name):
    return re.sub(r"-seed\d+$", "", name)
