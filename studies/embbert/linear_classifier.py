"""Measures the accuracy of a linear classifier on a task: a small network has to beat it.

    python -m studies.embbert.linear_classifier                                     # every task of TinyNLP
    python -m studies.embbert.linear_classifier --tasks=snips,data=folder:my_intents
    python -m studies.embbert.linear_classifier --tasks=snips,emotion,nlu --more=splits=code,leak_free=true

Prints one JSON object per task. It needs scikit-learn (``pip install '.[sklearn]'``).

The features are TF-IDF of single words and of pairs of neighbours, of each text of a record, on the splits and cleaned
texts of lwt's own runs; the classifier is a support vector machine, its regularization chosen on the validation set.
"""

import functools
import json
import pathlib
import tempfile
import time

import scipy.sparse
from absl import flags

from lwt import errors, extras
from lwt.data import labels, splits, text, text_fields
from lwt.machine import command_line
from lwt.metrics import classification
from lwt.runs import config_file

CONFIG = "configs/embbert_finetune.py"
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)  # the support vector machine's C: the larger, the less it is regularized


def of_texts(task, *, more=""):
    """``{"task", "train", "test", "features", "strength", "validation", "test_accuracy", "test_mcc", "seconds"}``.

    Args:
        task: a task of `configs/embbert_finetune.py`, or ``data=KIND:NAME``.
        more: further arguments of that config, about the data.

    Raises:
        lwt.errors.LwtError: the task or its data are unknown, or its labels are numbers.
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
    chosen = parts.train, parts.validation, next(iter(parts.tests.values()))
    records = [source.read(0, len(source)) for source in chosen]
    values = [[record[section.label] for record in rows] for rows in records]
    names = labels.Labels.of(values[0], names=parts.train.classes, where=parts.train.name)
    if names.regression:
        raise errors.ConfigError(f"{task} has numbers as labels; a classifier needs a task with classes")
    known = [names.encode(own, where=(task + ", record {}").format)[0] for own in values]
    texts = [[*zip(*(map(clean, text_fields.texts_of(record, parts.fields)) for record in rows))] for rows in records]
    train, validation, test = words(*texts)
    best = {"accuracy": -1.0}
    for strength in STRENGTHS:
        machine = sklearn("svm").LinearSVC(C=strength, random_state=0).fit(train, known[0])
        accuracy = classification.score(machine.predict(validation), known[1], classes=names.outputs)["accuracy"]
        if accuracy > best["accuracy"]:
            best = {"accuracy": accuracy, "strength": strength, "machine": machine}
    figures = classification.score(best["machine"].predict(test), known[2], classes=names.outputs)
    return {
        "task": task,
        "train": len(known[0]),
        "test": len(known[2]),
        "features": train.shape[1],
        "strength": best["strength"],
        "validation": round(best["accuracy"], 4),
        "test_accuracy": round(figures["accuracy"], 4),
        "test_mcc": round(figures["mcc"], 4),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def words(train, *others):
    """TF-IDF features `[n f]`, sparse, of several sets of records; the vocabulary is that of the first.

    Args:
        train, others: a sequence of texts for each of the texts of a record.
    """
    vectorizer = functools.partial(
        sklearn("feature_extraction.text").TfidfVectorizer, ngram_range=(1, 2), sublinear_tf=True
    )
    found = [vectorizer().fit(texts) for texts in train]
    return [
        scipy.sparse.hstack([known.transform(texts) for known, texts in zip(found, own, strict=True)])
        for own in (train, *others)
    ]


def sklearn(name):
    """A module of scikit-learn.

    Raises:
        lwt.errors.ConfigError: scikit-learn is not installed.
    """
    return extras.load(f"sklearn.{name}", "the linear classifier")


def main():
    """The program: prints one line of figures per task."""
    values = flags.FLAGS
    for task in values.tasks or config_file.module(CONFIG).TINYNLP:
        print(json.dumps(of_texts(task, more=values.more)), flush=True)


if __name__ == "__main__":
    flags.DEFINE_list("tasks", [], "Tasks of configs/embbert_finetune.py, or data=KIND:NAME; default: TinyNLP's.")
    flags.DEFINE_string("more", "", "Further arguments of that config, such as 'splits=code,leak_free=true'.")
    command_line.run(main, required=[])
