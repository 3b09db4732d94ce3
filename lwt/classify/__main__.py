"""Makes a classifier from a table of texts and labels, and says what the table holds and how good the classifier is.

    python -m lwt.classify tickets.csv --text=text --label=category
    python -m lwt.classify tickets.csv --merge_labels --min_rows=3 --time=10m --out=runs/tickets
    python -m lwt.classify folder                     # with files train, validation and test
    python -m lwt.classify train.parquet --test=test.parquet --model=embedder

The table is a .csv, .tsv, .jsonl, .json (also .gz) or .parquet. Rows without a text or label, and rows that repeat or
contradict another row, are left out and listed in OUT/classify/left_out.csv. The rest is divided, each class by the
same shares; no text is in two parts. Then a linear model on TF-IDF features and a small text model are fitted, and
measured on the test part; the report is in OUT/classify. OUT is an ordinary run. The same command continues what was
stopped. The last line is one JSON object. docs/classify.md leads through all of it.
"""

import functools
import sys

from absl import flags

from lwt import errors
from lwt.machine import command_line


def main():
    """The program."""
    from lwt.classify import run  # after jax.distributed has begun

    values = flags.FLAGS
    if values.table is None:
        called = command_line.as_called("python -m lwt.classify TABLE")
        raise errors.ConfigError(f"name the table first: {called}; --help explains")
    given = {name: getattr(values, name) for name in run.Options.__dataclass_fields__}
    given["rename_labels"] = tuple(values.rename_labels)
    say = functools.partial(print, flush=True)
    command_line.report(run.classify(values.table, values.out, options=run.Options(**given), say=say))


def table_first(arguments):
    """The arguments; a first one that is not a flag becomes ``--table=``."""
    first = arguments[:1]
    return [f"--table={first[0]}", *arguments[1:]] if first and not first[0].startswith("-") else arguments


if __name__ == "__main__":
    sys.argv[1:] = table_first(sys.argv[1:])
    flags.DEFINE_string(
        "table", None, "The table, a file or a folder of files train, validation and test; comes first."
    )
    flags.DEFINE_string("validation", "", "A file of its validation part; default: drawn from the table.")
    flags.DEFINE_string("test", "", "A file of its test part; default: drawn from the table.")
    flags.DEFINE_string("text", "", "Column of the texts; a+b joins two. Default: the one with a usual name.")
    flags.DEFINE_string("label", "", "Column of the labels. Default: the one with a usual name.")
    flags.DEFINE_boolean("merge_labels", False, "Merge labels that differ in case, spaces or punctuation alone.")
    flags.DEFINE_list("rename_labels", [], "Labels to rename: OLD:NEW,OLD:NEW.")
    flags.DEFINE_integer("min_rows", 1, "Labels with fewer rows are left out, with their rows.", lower_bound=1)
    flags.DEFINE_float("max_malformed", 0.1, "Share of rows that may be unreadable.", lower_bound=0, upper_bound=1)
    flags.DEFINE_string(
        "model",
        "",
        "embbert, embedder, bert_tiny, hf:FOLDER, or the folder of a run or bundle. Default: embbert, or embedder if "
        "the trained weights of embbert are of another language.",
    )
    flags.DEFINE_string("base", "", "The folder of trained weights to start from instead of the model's own.")
    flags.DEFINE_string("teacher", "", "A run of the same labels to learn from as well.")
    flags.DEFINE_integer("epochs", 0, "Passes over the training part; 0: what suits its size.", lower_bound=0)
    flags.DEFINE_integer("seed", 0, "Seed of the division and of the training.", lower_bound=0)
    flags.DEFINE_string("time", "", "Time in which to search rate, epochs and word dropout: 90s, 10m, 1h.")
    flags.DEFINE_string("out", "", "Folder of the run; default: runs/NAME of the table.")
    command_line.run(main, required=[])
