"""What a linear classifier makes of the words of a text: the accuracy that a small language model has to beat.

    python -m benchmarks.linear_text
    python -m benchmarks.linear_text --tasks=snips,data=folder:my_intents
    python -m benchmarks.linear_text --tasks=snips,emotion,nlu --more=splits=code,leak_free=true

scikit-learn's linear support vector machine on TF-IDF of single words and of pairs of neighbours, of each text of a
record, on the parts and cleaned texts of lwt's own runs. Of a few strengths of regularization, the one that is best on
the validation part is tested, on the first test set. One line of JSON a task.
"""

import json
import pathlib
import tempfile
import time

import scipy.sparse
from absl import flags
from sklearn import feature_extraction, svm

from lwt import errors
from lwt.data import labels, splits, text
from lwt.machine import command_line
from lwt.metrics import classification
from lwt.runs import config_file

CONFIG = "configs/embbert_finetune.py"
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)


def main():
    """The program."""
    for task in flags.FLAGS.tasks or config_file.module(CONFIG).TINYNLP:
        print(json.dumps(measure(task, more=flags.FLAGS.more)), flush=True)


def measure(task, *, more=""):
    """``{"task", "train", "test", "features", "strength", "validation", "test_accuracy", "test_mcc", "seconds"}``.

    Args:
        task: of `configs/embbert_finetune.py`, or ``data=KIND:NAME``.
        more: arguments of that config besides, about the data.

    Raises:
        lwt.errors.LwtError: no such task or data, or one of numbers.
    """
    begin = time.perf_counter()
    given = [task if "=" in task else f"task={task}", *filter(None, [more])]
    config = config_file.load(f"{CONFIG}:recipe=tuned,{','.join(given)}")
    section, clean = config.data, text.Cleaner(**config.data.clean).clean
    with tempfile.TemporaryDirectory() as folder:
        parts = splits.make(
            section.train,
            pathlib.Path(folder, "splits.json"),
            tests=tuple(filter(None, [section.test])),
            label=section.label,
            leak_free=section.leak_free,
        )
    sources = [parts.train, parts.validation, next(iter(parts.tests.values()))]
    records = [source.read(0, len(source)) for source in sources]
    values = [[record[section.label] for record in rows] for rows in records]
    names = labels.Labels.of(values[0], names=parts.train.classes, where=parts.train.name)
    if names.regression:
        raise errors.ConfigError(f"{task} asks for numbers; a classifier needs a task of classes")
    known = [names.encode(found, where=task)[0] for found in values]
    sides = [[*zip(*(map(clean, splits.texts_of(record, parts.fields)) for record in rows))] for rows in records]
    words = [feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(s) for s in sides[0]]
    train, validation, test = (scipy.sparse.hstack([w.transform(s) for w, s in zip(words, rows)]) for rows in sides)

    def score(machine, features, wanted):
        return classification.score(machine.predict(features), wanted, classes=names.outputs)

    found = []
    for strength in STRENGTHS:
        machine = svm.LinearSVC(C=strength, random_state=0).fit(train, known[0])
        found.append((score(machine, validation, known[1])["accuracy"], strength, machine))
    accuracy, strength, machine = max(found, key=lambda one: one[0])
    figures = score(machine, test, known[2])
    return {
        "task": task,
        "train": len(known[0]),
        "test": len(known[2]),
        "features": train.shape[1],
        "strength": strength,
        "validation": round(accuracy, 4),
        "test_accuracy": round(figures["accuracy"], 4),
        "test_mcc": round(figures["mcc"], 4),
        "seconds": round(time.perf_counter() - begin, 1),
    }


if __name__ == "__main__":
    flags.DEFINE_list("tasks", [], "Tasks of configs/embbert_finetune.py, or data=KIND:NAME; none: those of TinyNLP.")
    flags.DEFINE_string("more", "", "More arguments of the config: 'splits=code,leak_free=true'.")
    command_line.run(main, required=[])
