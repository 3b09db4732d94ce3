"""The page of the EmbBERT-Q study, made from the runs' records: the paper's tables with our figures beside them."""

import functools
import itertools
import os
import statistics

from lwt.inspect import cost
from lwt.report import pages, plots, results
from lwt.runs import config_file
from studies.embbert import memory as embbert_memory
from studies.embbert import paper
from studies.embbert import scores as embbert_scores

PRETRAIN = "configs/embbert_pretrain.py"
SUITES = {"TinyNLP": 9, "GLUE": 12}  # the whole tables of pre-trained models
CURVES = "pretraining.png"


def write(out, records, *, workdir, missing, command_line):
    """Writes the page, its rows, tables and pictures into the folder `out`; returns the names of the files.

    Args:
        out: folder of the page.
        records: ``{name: record of the run}``; that of a pre-training has no "task" among its arguments.
        workdir: of the runs; it has the learning curves of the pre-trainings.
        missing: names of runs that were asked for and have no record.
        command_line: what makes the page.
    """
    report = pages.Page(out, "EmbBERT-Q on TinyNLP and GLUE", command_line=command_line)
    rows = report.rows(embbert_scores.rows_of(records, command_line=command_line))
    bases = {name: record for name, record in records.items() if "task" not in record["arguments"]}
    tuned = {name: record for name, record in records.items() if name not in bases}
    tables, scores = paper.TABLES, embbert_scores.collect(rows)
    lines = {number: embbert_scores.lines(table, scores) for number, table in tables.items()}
    memory, data = memory_table(rows), data_table(tuned)
    report.csv("scores.csv", score_list(lines))
    report.add("\n".join(settings(bases, tuned)))
    report.add(pages.bullets([*findings(lines, rows), *pages.notes(records, missing=missing)]), HOW_TO_READ)
    if any(record["arguments"]["start"] == "ngrams" for record in tuned.values()):
        report.add(NGRAMS)
    empty = [number for number in tables if not any(any(line.values()) for line in lines[number].values())]
    for number, table in tables.items():
        if number not in empty:
            report.add(f"## Table {number}: {table.title}", score_table(table, lines[number]))
            report.add(*(f"- {sentence}" for sentence in incomplete(table, lines[number])))
    report.add(f"Nothing is measured yet of Tables {', '.join(map(str, empty))}." if empty else "")
    report.add("## Table 2: memory", results.markdown(*_shown(*memory)), MEMORY, "## Figure 2")
    draw(memory, lines, path=report.picture("figure2.png", "weights, activations and scores"))
    if drawn := curves(records):
        report.add("## Pre-training")
        titles = {paper.title(records[name]["arguments"]["model"]): os.path.join(workdir, name) for name in drawn}
        label = "masked words and next sentence (nats)"
        report.curves(CURVES, "loss of the pre-training", runs=titles, label=label, title="Loss of the pre-training")
    report.add("## Tables 3 and 4: the data", results.markdown(*_shown(*data)), DATA)
    return report.write()


def curves(records):
    """Names of the runs whose loss the page draws: the pre-trainings, but not those on a task's own texts."""
    return [name for name, record in records.items() if not {"task", "data"} & {*record["arguments"]}]


HOW_TO_READ = """\
Per cent on the test set: mean ± standard deviation over the seeds, and the paper's figures in the line below. A mean is
over all columns, of the seeds that have them all; "–" is not measured. EmbBERT-Q and what is marked "(8 bits)" is
evaluated from a file of integers. In GLUE's tables F1 is weighted by the classes' sizes, as in the paper's code, and
the mean is that of ten columns, as the paper prints it; GLUE's rule averages nine tasks, with accuracy and F1 of the
positive class, and both correlations. The paper's WNLI is partly one minus the accuracy, and its Table 8 repeats
accuracies where the MCC of Embedder and Embedder + conv should stand (Table 10 has it).
"""
NGRAMS = """\
The models with n-grams have a hashed table of tokens and pairs of tokens in the head, and train without the texts that
the validation or test set holds.
"""
MEMORY = """\
Weights are counted without a head, activations are those of the paper's formulas for one text of 256 tokens (BERT-Tiny:
512), totals without quantization 4 bytes a value. The file holds the head and all scales; its total adds activations of
2 bytes. The paper's 781 kB are EmbBERT-Q's. More readings: `python -m studies.embbert.memory`.
"""
DATA = """\
Records of our copies, which are smaller than the paper's sets in places. "In train" counts the test texts that the
training data holds too, case and white space aside.
"""


def settings(bases, tuned):
    """Sentences that say how the models were trained."""
    found = []
    for record in bases.values():
        figures, name = record["figures"], paper.title(record["arguments"]["model"])
        shown = ", ".join(f"{metric} {value:.4g}" for metric, value in figures.items() if isinstance(value, float))
        hours = f"{pages.hours([record])} on {record['hardware']}"
        source = f"`{record['data']}`"
        if record.get("init_from"):  # older records lack the key
            source += f", from `{record['init_from']}` on"
        found.append(f"{name} was pre-trained on {source}: {record['steps']:,} steps, {hours} ({shown}).")
    if tuned:
        records = tuned.values()
        rates = ", ".join(f"{rate:g}" for rate in sorted({record["learning_rate"] for record in records}))
        lengths = {f"{r['epochs']:g} epochs" if r["epochs"] else f"{r['steps']:,} steps" for r in records}
        found.append(
            f"{len(tuned)} fine-tunings ({', '.join(sorted(lengths))}; rate {rates}): {pages.hours(records)} in all, "
            f"on {pages.machines(records)}."
        )
    return found


def findings(lines, rows):
    """Sentences that say what the averages say."""
    found, sizes = [], embbert_scores.file_sizes(rows)
    for suite, number in SUITES.items():
        table, parts = paper.TABLES[number], []
        for (model, form), line in lines[number].items():
            if line["average"]:
                printed = embbert_scores.paper_line(table, model, form=form).get("average")
                beside = f" (paper {100 * printed:.2f})" if printed is not None else ""
                parts.append(f"{paper.title(model, form)} {results.percent(line['average'], digits=2)}{beside}")
        if parts:
            found.append(f"{suite}, mean of the columns: {', '.join(parts)}.")
        for model in dict.fromkeys(key[0] for key in lines[number]):
            forms = [lines[number].get((model, form), {}).get("average") for form in paper.FORMS]
            if all(forms):
                change = 100 * (statistics.fmean(forms[1]) - statistics.fmean(forms[0]))
                found.append(
                    f"{suite}, {paper.title(model)}: eight bits change the mean by {change:+.2f} points "
                    f"(files of {sizes[model]:,} bytes)."
                )
    return found


def score_table(table, lines):
    """The Markdown table of the lines of a table of the paper: ours, and below it the paper's."""
    means = {name: embbert_scores.MEANS[name] for name in embbert_scores.means_of(table)}
    columns = {**table.columns, **means}
    body = []
    for (model, form), line in lines.items():
        title, printed = paper.title(model, form), embbert_scores.paper_line(table, model, form=form)
        counts = sorted({len(line[column]) for column in table.columns if line[column]})
        seeds = "–" if not counts else "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        body.append([title, *(results.percent(line[column], digits=2) for column in columns), seeds])
        if printed:
            shown = [f"{100 * printed[column]:.2f}" if column in printed else "–" for column in columns]
            body.append([f"{title}, paper", *shown, ""])
    return results.markdown(["model", *columns.values(), "seeds"], body)


def incomplete(table, lines):
    """Sentences on the lines that have figures, but no average."""
    found = []
    for (model, form), line in lines.items():
        lacking = [table.columns[column] for column in embbert_scores.lacking(table, line)]
        if any(line[column] for column in table.columns) and not line["average"]:
            why = f"without {', '.join(lacking)}" if lacking else "for no seed has all columns"
            found.append(f"{paper.title(model, form)}: no mean {why}.")
    return found


def score_list(lines):
    """Header and lines of ``scores.csv``: every cell of every table."""
    body = []
    for number, found in lines.items():
        table = paper.TABLES[number]
        for (model, form), line in found.items():
            printed = embbert_scores.paper_line(table, model, form=form)
            for column, values in line.items():
                mean = statistics.fmean(values) if values else None
                deviation = statistics.stdev(values) if len(values) > 1 else None
                metric = embbert_scores.metric_of(table, column) if column in table.columns else "mean"
                body.append([number, model, form, column, metric, mean, deviation, len(values), printed.get(column)])
    return ["table", "model", "form", "column", "metric", "mean", "deviation", "seeds", "paper"], body


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
        if wide := files.get(f"{model}+ngrams"):
            body.append([paper.title(f"{model}+ngrams"), *[None] * 6, wide, wide + 2 * activations])
    header = ["model", "weights: paper", "counted", "activations: paper", "formulas", "bytes: paper", "float32"]
    return [*header, "eight-bit file", "with activations"], body


@functools.cache
def weights_of(model):
    """Weights of a model without its heads, counted."""
    return cost.parameters(config_file.load(f"{PRETRAIN}:model={model}"))["model"]


def data_table(tuned):
    """Header and lines of Tables 3 and 4: what every task's parts hold, from the first run that has them."""
    body, seen = [], {}
    for record in tuned.values():
        seen.setdefault(record["arguments"]["task"], record)
    for task, (size, classes) in paper.SIZES.items():
        line = [task, size, classes]
        if task in seen:
            counts, parts = seen[task]["records"], seen[task]["figures"][paper.FLOAT]
            tests, leaks = ([counts[key.format(part)] for part in parts] for key in ("{}", "{} in train"))
            line += [counts["train"], counts["validation"], " + ".join(map(str, tests)), sum(leaks), seen[task]["rule"]]
        body.append(line + [None] * (8 - len(line)))
    return ["task", "records: paper", "classes", "train", "validation", "test", "in train", "rule"], body


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
    title = (
        "Sizes of the models, and their scores beside the paper's"
        if ours
        else "Sizes of the models; the paper's scores"
    )
    plots.rows(found, path, columns=columns, title=title, dots=[*SUITES])


def _shown(header, body):
    """A table of values as texts."""
    return header, [[_text(value) for value in line] for line in body]


def _text(value):
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
