"""The page of the EmbBERT-Q study, made from the runs' records: the paper's tables, with our figures above its own."""

import functools
import itertools
import os
import statistics

from lwt.inspect import cost
from lwt.report import pages, plots, results
from lwt.runs import config_file
from studies.embbert import memory as embbert_memory
from studies.embbert import paper, starts, texts
from studies.embbert import scores as embbert_scores

PRETRAIN = "configs/embbert_pretrain.py"
SUITES = {"TinyNLP": 9, "GLUE": 12}  # the whole tables of pre-trained models
CURVES = {  # the recipe in a pre-training's arguments -> its picture
    "": ("pretraining.png", "loss of the pre-training"),
    "paper": ("pretraining_paper.png", "loss of the pre-training by the paper's recipe"),
}
ON_CODE = (9, 10)  # the tables that show the splits of the authors' code


def write(out, records, *, workdir, missing, command_line):
    """Writes the page, its rows, tables and pictures into the folder `out`; see `study.main`.

    Args:
        records: that of a pre-training has no "task" among its arguments.
        workdir: of the runs; it has the learning curves of the pre-trainings.
    """
    report = pages.Page(out, "EmbBERT-Q on TinyNLP and GLUE", command_line=command_line)
    rows = report.rows(embbert_scores.rows_of(records, command_line=command_line))
    bases = {name: record for name, record in records.items() if "task" not in record["arguments"]}
    tuned = {name: record for name, record in records.items() if name not in bases}
    own = {name: record for name, record in tuned.items() if "splits" not in record["arguments"]}
    tables, lines = paper.TABLES, lines_of(rows, paper.TABLES)
    on_code = lines_of(rows, ON_CODE, splits="code")
    measured = [number for number in tables if any(map(_has_figures, lines[number].values()))]
    report.csv("scores.csv", score_list({"own": lines, "code": on_code}))
    report.add(trained(own), texts.TUNED if "recipe=tuned" in command_line else "")
    report.add(pages.bullets([*embbert_scores.absent(missing, records), *pages.notes(records)]))
    if any(line["average"] for number in SUITES.values() for line in lines[number].values()):
        memory = memory_table(rows)
        report.add("## The means", results.markdown(*means_table(lines, rows)), texts.MEANS)
        report.add("## Table 2: memory", results.markdown(*_shown(*memory)), texts.MEMORY, "## Figure 2")
        draw(memory, lines, path=report.picture("figure2.png", "weights, activations and scores"))
    if measured:
        report.add("## The paper's tables", texts.HOW_TO_READ)
    begun = {record["arguments"]["start"] for record in tuned.values()}
    report.add(*(text for about, text in texts.STARTS.items() if begun & {*about}))
    for number in measured:
        report.add(f"### Table {number}: {tables[number].title}", score_table(tables[number], lines[number]))
        report.add(absent(lines[number]))
    if missed := [str(number) for number in tables if number not in measured]:
        report.add(f"Not measured: Tables {', '.join(missed)}.")
    if coded := {name: record for name, record in tuned.items() if name not in own}:
        report.add("## The splits of the authors' code", texts.CODE, trained(coded))
        report.add(*itertools.chain.from_iterable(map(code_table, on_code, on_code.values())))
        report.add(results.markdown(*_shown(*data_table(coded))))
    if bases:
        report.add("## Pre-training", texts.PRETRAINING, results.markdown(*pre_trainings(bases)))
        add_curves(report, bases, workdir=workdir)
    if own:
        report.add("## Tables 3 and 4: the data", results.markdown(*_shown(*data_table(own))), texts.DATA)
    return report.write()


def lines_of(rows, numbers, *, splits="own"):
    """``{number: lines}`` of tables of the paper; see `scores.lines`."""
    scores = embbert_scores.collect(rows, splits=splits)
    return {number: embbert_scores.lines(paper.TABLES[number], scores) for number in numbers}


def add_curves(report, bases, *, workdir):
    """Shows the loss of the pre-trainings, those by the paper's recipe in a picture of their own."""
    label = "masked words and next sentence (nats)"
    for recipe, (picture, caption) in CURVES.items():
        drawn = [name for name in curves(bases) if bases[name]["arguments"].get("recipe", "") == recipe]
        titles = {base_title(bases[name]["arguments"]): os.path.join(workdir, name) for name in drawn}
        if titles:
            report.curves(picture, caption, runs=titles, label=label, title=caption.capitalize())


def curves(records):
    """Names of the runs whose loss the page draws: the pre-trainings, but not those on a task's own texts."""
    return [name for name, record in records.items() if not {"task", "data"} & {*record["arguments"]}]


def base_title(arguments):
    """The title of a pre-training: the model, and the recipe or the initial tables that set it apart."""
    variant = "small_pretrained" if "tables" in arguments else arguments.get("recipe")
    return paper.title("+".join(filter(None, (arguments["model"], variant))))


def pre_trainings(bases):
    """Header and lines of the table of pre-trainings."""
    body = []
    for record in bases.values():
        first, *others = [part.removeprefix("folder:") for part in record["data"].split("+")]
        body.append([
            base_title(record["arguments"]),
            first if not others else f"{first} and {len(others)} more",
            record.get("init_from") or "–",  # older records lack the key
            f"{record['steps']:,}",
            f"{record['figures']['mlm_loss']:.2f}",
            pages.hours([record]),
            record["hardware"],
        ])  # fmt: skip
    return ["model", "texts", "starts from", "steps", "loss", "time", "machine"], body


def trained(tuned):
    """A sentence that says how the models were fine-tuned; "" if none was."""
    if not tuned:
        return ""
    records = tuned.values()
    linear = sum(bool(starts.STARTS[record["arguments"]["start"]].network) for record in records)
    also = f" and {linear} linear models of n-grams" if linear else ""
    rates = ", ".join(f"{rate:.3g}" for rate in sorted({record["learning_rate"] for record in records}))
    epochs, steps = {r["epochs"] for r in records} - {0}, {r["steps"] for r in records if not r["epochs"]}
    counts = ((sorted(epochs), "epochs"), (sorted(steps), "steps"))
    lengths = " or ".join(f"{', '.join(f'{n:,g}' for n in own)} {unit}" for own, unit in counts if own)
    return (
        f"{len(tuned) - linear} fine-tunings of {lengths} at the rate {rates}{also}: {pages.hours(records)} in all, on "
        f"{pages.machines(records)}."
    )


def means_table(lines, rows):
    """Header and lines of the models' means on both suites, what eight bits change, and the bytes of the files."""
    sizes, body = embbert_scores.file_sizes(rows), []
    models = dict.fromkeys(model for number in SUITES.values() for model, _ in lines[number])
    for model in models:
        cells = []
        for number in SUITES.values():
            whole, rounded = (lines[number].get((model, form), {}).get("average") for form in paper.FORMS)
            printed = paper_means(paper.TABLES[number], model)
            change = (
                f"{100 * (statistics.fmean(rounded) - statistics.fmean(whole)):+z.2f}" if whole and rounded else "–"
            )
            cells += [results.percent(whole, digits=2), change, printed]
        if cells[0] != "–" or cells[3] != "–":
            body.append([paper.title(model), *cells, f"{sizes[model]:,}" if model in sizes else "–"])
    header = [name for suite in SUITES for name in (suite, f"{suite}, 8 bits", f"{suite}, paper")]
    return ["model", *header, "bytes in 8 bits"], body


def paper_means(table, model):
    """The paper's mean of a model in a table, and that in 8 bits if it has one: ``"87.19; 88.17 in 8 bits"``."""
    found = []
    for form, after in zip(paper.FORMS, ("", " in 8 bits"), strict=True):
        printed = embbert_scores.paper_line(table, model, form=form).get("average")
        found += [f"{100 * printed:.2f}{after}"] if printed else []
    return "; ".join(found) or "–"


def code_table(number, lines):
    """Heading and Markdown table of the columns of a table of the paper that are measured, without their mean."""
    table = paper.TABLES[number]
    seen = {column: title for column, title in table.columns.items() if any(line[column] for line in lines.values())}
    return f"### {table.title}, on the splits of the code", score_table(table, lines, columns=seen)


def score_table(table, lines, *, columns=None):
    """The Markdown table of the measured lines of a table of the paper: ours, and below it the paper's.

    `columns` are names and titles; None: those of the table and its means.
    """
    means = {name: embbert_scores.MEANS[name] for name in embbert_scores.means_of(table)}
    columns = columns or {**table.columns, **means}
    body = []
    for (model, form), line in lines.items():
        if not _has_figures(line):
            continue
        title, printed = paper.title(model, form), embbert_scores.paper_line(table, model, form=form)
        counts = sorted({len(line[column]) for column in table.columns if line[column]})
        seeds = "–" if not counts else "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        body.append([title, *(results.percent(line[column], digits=2) for column in columns), seeds])
        if printed:
            shown = [f"{100 * printed[column]:.2f}" if column in printed else "–" for column in columns]
            body.append([f"{title}, paper", *shown, ""])
    return results.markdown(["model", *columns.values(), "seeds"], body)


def absent(lines):
    """A sentence that names the lines of a table without a figure; "" if all have one."""
    names = [paper.title(*key) for key, line in lines.items() if not _has_figures(line)]
    return f"Not measured: {', '.join(names)}." if names else ""


def _has_figures(line):
    return any(line.values())


def score_list(lines):
    """Header and lines of ``scores.csv``: every cell of every table of ``{splits: {number: lines}}``."""
    body = []
    for splits, (number, found) in ((splits, item) for splits, tables in lines.items() for item in tables.items()):
        table = paper.TABLES[number]
        for (model, form), line in found.items():
            printed = embbert_scores.paper_line(table, model, form=form)
            for column, values in line.items():
                mean = statistics.fmean(values) if values else None
                deviation = statistics.stdev(values) if len(values) > 1 else None
                metric = embbert_scores.metric_of(table, column) if column in table.columns else "mean"
                figures = [mean, deviation, len(values), printed.get(column)]
                body.append([number, splits, model, form, column, metric, *figures])
    return ["table", "splits", "model", "form", "column", "metric", "mean", "deviation", "seeds", "paper"], body


def memory_table(rows):
    """Header and lines of Table 2, the models of section 6 besides: sizes in values and in bytes; None: not known."""
    known, costs, files = embbert_memory.table_2(), embbert_memory.ablations(), embbert_scores.file_sizes(rows)
    body = []
    for model, title in paper.MODELS.items():
        printed = [1000 * value for value in known[title].paper] if title in known else [None] * 3
        activations = int((known[title].cost if title in known else costs[title]).activations)
        weights = weights_of(model)
        size = files.get(model)
        both = size + 2 * activations if size else None
        pairs = zip(printed, (weights, activations, 4 * (weights + activations)), strict=True)
        body.append([title, *itertools.chain.from_iterable(pairs), size, both])
        for start in (name for name, start in starts.STARTS.items() if "ngram_weights" in start.added):
            if wide := files.get(f"{model}+{start}"):
                body.append([paper.title(f"{model}+{start}"), *[None] * 6, wide, wide + 2 * activations])
    header = ["model", "weights, paper", "weights, counted", "activations, paper", "activations, by formula"]
    return [*header, "bytes, paper", "bytes in float32", "bytes of the file", "file and activations"], body


@functools.cache
def weights_of(model):
    """Weights of a model without its heads, counted."""
    return cost.parameters(config_file.load(f"{PRETRAIN}:model={model}"))["model"]


def data_table(tuned):
    """Header and lines of Tables 3 and 4: the parts of every measured task, from the first run that has it."""
    body, seen = [], {}
    for record in tuned.values():
        seen.setdefault(record["arguments"]["task"], record)
    for task, (size, classes) in paper.SIZES.items():
        if task in seen:
            counts, parts = seen[task]["records"], seen[task]["figures"][paper.FLOAT]
            tests, leaks = ([counts[key.format(part)] for part in parts] for key in ("{}", "{} in train"))
            tested = " + ".join(f"{count:,}" for count in tests)
            ours = [counts["train"], counts["validation"], tested, sum(leaks)]
            body.append([task, size, classes, *ours, seen[task]["rule"]])
    return ["task", "records, paper", "classes", "train", "validation", "test", "in train", "rule"], body


def draw(memory, lines, *, path):
    """Draws Figure 2: sizes of the models of section 6, and their means on both benchmarks."""
    sizes = {line[0]: (line[2], line[4]) for line in memory[1]}
    keys = [(model, paper.FLOAT) for model in paper.LADDER] + [("embbert", paper.EIGHT_BIT)]
    found = {}
    for key in keys:
        weights, activations = sizes[paper.MODELS[key[0]]]
        found[paper.title(*key)] = {"weights": weights / 1e3, "activations": activations / 1e3}
    for suite, number in SUITES.items():
        for key in keys:
            ours = [100 * value for value in lines[number].get(key, {}).get("average", [])]
            cell = ({"lwt": ours} if ours else {}) | {"paper": paper.TABLES[number].rows[key]["average"]}
            found[paper.title(*key)][suite] = cell
    columns = {"weights": ("weights (k)", 0), "activations": ("activations (k)", 0)}
    columns |= {suite: (f"{suite} mean (%)", 1) for suite in SUITES}
    ours = any("lwt" in line[suite] for line in found.values() for suite in SUITES)
    title = "Sizes of the models, our scores and the paper's" if ours else "Sizes of the models; the paper's scores"
    plots.rows(found, path, columns=columns, title=title, dots=[*SUITES])


def _shown(header, body):
    """A table of values as texts."""
    return header, [[_text(value) for value in line] for line in body]


def _text(value):
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
