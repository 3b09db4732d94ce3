"""Compares headlines that a small encoder-decoder writes with the first words of the text.

    python -m studies.translation.headlines --workdir=runs/headlines --out=docs/results/headlines
    python -m studies.translation.headlines --workdir=runs/headlines --seeds=1
    python -m studies.translation.headlines --workdir=runs/headlines --report_only

A run is `configs/summarization.py`: the description of a news item of AG News is the source, its title the target. The
first words of a description are the usual baseline; how many is chosen by ROUGE-L on the validation set. How runs are
chosen, resumed and reported: `lwt/report/study.py`.
"""

import os
import re
import statistics

from absl import flags

from lwt.inspect import cost
from lwt.machine import hardware
from lwt.metrics import rouge
from lwt.report import pages, results, study
from lwt.runs import experiment

CONFIG = "configs/summarization.py"
RECORD = os.path.join("eval", "headlines_study.json")
WORDS = range(4, 17)  # of a text's beginning
COLUMNS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
HOW_TO_READ = """\
ROUGE is the F1 on the test set, from 0 to 100, on stems (`rouge-score`); for the model, mean ± standard deviation over
the seeds. The model is trained from scratch on these pairs alone. The number of first words is that with the best
ROUGE-L on the validation set.
"""


def entries(*, seeds=3, smoke=False):
    """The runs of the study.

    Args:
        seeds: their number.
        smoke: whether to train a tiny model for two steps.
    """
    more = "smoke=true" if smoke else ""
    return [
        study.Entry(f"seed{seed}", dict(seed=seed), study.spec_of(CONFIG, dict(seed=seed), more=more))
        for seed in range(seeds)
    ]


def run(entry, workdir):
    """Trains or resumes the run of `entry` unless it is finished; measures it once; returns its record."""
    return study.run(entry, workdir, measure=measure, record=RECORD)


def measure(entry, folder):
    """The record of a run: its scores on the test set, those of the first words, and the number of pairs."""
    del entry
    trained = experiment.load(folder)
    figures, sources, answers, references = trained.evaluate()
    validation = trained.data.evaluation(trained.data.named("validation"))
    return {
        "checkpoint": trained.step,
        "figures": {"data": trained.data.test} | {name: figures[name] for name in COLUMNS},
        "lead": lead((validation.sources, validation.references), test=(sources, references)),
        "copied": {"titles": copied(references, sources), "answers": copied(answers, sources)},
        "texts": len(references),
        "parameters": cost.parameters(trained.config, vocabulary=trained.tokenizer.vocabulary)["total"],
        "seconds": study.seconds(folder),
        "hardware": hardware.of_run(folder),
    }


def lead(validation, *, test):
    """``{"words": n, "rouge1": ..., ...}`` of the first n words; both sets are ``(sources, references)``."""
    words = max(WORDS, key=lambda count: scored(*validation, count)["rougeL"])
    return {"words": words} | scored(*test, words)


def copied(texts, sources):
    """The share of the words of all texts that their sources have, too; capitals and punctuation do not count."""
    pairs = zip(map(words_of, texts), map(words_of, sources), strict=True)
    return statistics.fmean(word in source for text, source in pairs for word in text)


def words_of(text):
    """The words of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def scored(sources, references, count):
    """The scores of the first `count` words of each source."""
    found = rouge.score([" ".join(source.split()[:count]) for source in sources], references)
    return {name: found[name] for name in COLUMNS}


def write(out, records, *, missing, command_line):
    """Writes README.md and results.json into the folder `out`; see `study.main`."""
    page = pages.Page(out, "Headlines of news", command_line=command_line)
    runs = list(records.values())
    first = runs[0]
    page.rows(row for record in runs for row in rows_of(record, command_line=command_line))
    page.add(pages.bullets(pages.notes(records, missing=missing)), HOW_TO_READ)
    page.add(f"`{CONFIG}`, {first['steps']:,} steps; {first['texts']:,} test texts; {pages.effort(runs)}.")
    shares = {key: results.percent([record["copied"][key] for record in runs]) for key in first["copied"]}
    page.add(
        f"Descriptions contain {shares['titles']} % of the words of their titles, and {shares['answers']} % of those "
        "that the model writes."
    )
    beginning = [f"the first {first['lead']['words']} words", "–", *(f"{first['lead'][name]:.2f}" for name in COLUMNS)]
    cells = [results.Cell.of([record["figures"][name] for record in runs]).text(2) for name in COLUMNS]
    model = ["the model", f"{first['parameters']:,}", *cells]
    page.add(results.markdown(["headline", "parameters", *COLUMNS.values()], [beginning, model]))
    return page.write()


def rows_of(record, *, command_line):
    """Rows for ``results.json``: the scores of a run, and its parameters."""
    fixed = results.of_run(record, command_line=command_line)
    values = {name: record["figures"][name] for name in COLUMNS} | {"parameters": record["parameters"]}
    values |= {f"copied/{name}": share for name, share in record["copied"].items()}
    values |= {f"lead/{name}": record["lead"][name] for name in COLUMNS}
    return [fixed | {"metric": name, "value": value} for name, value in values.items()]


def main():
    """The program."""
    values = flags.FLAGS
    found = entries(seeds=values.seeds, smoke=values.smoke)
    study.main(found, run, write=write, record=RECORD)


if __name__ == "__main__":
    study.define_flags()
    study.start(main)
