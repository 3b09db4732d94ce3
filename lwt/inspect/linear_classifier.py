"""Measures what a linear classifier makes of a data set: the accuracy that a small network has to beat.

    python -m lwt.inspect.linear_classifier                                     # every task of TinyNLP
    python -m lwt.inspect.linear_classifier --tasks=snips,data=folder:my_intents
    python -m lwt.inspect.linear_classifier --tasks=snips,emotion,nlu --more=splits=code,leak_free=true
    python -m lwt.inspect.linear_classifier --images=generated:radar_har,difficulty=hard

prints one JSON object per data set. It needs scikit-learn (``pip install lwt[bench]``).

texts     TF-IDF of single words and of pairs of neighbours, of each text of a record, on the splits and cleaned texts
          of lwt's own runs; a support vector machine, its regularization chosen on the validation set
images    the means of 32 × 32 fields of each channel; ridge regression. It learns the split ``train`` and is tested on
          ``test``; a recording with folds is cross-validated, so that every record is tested once
"""

import functools
import importlib
import json
import pathlib
import tempfile
import time

import numpy as np
import scipy.sparse
from absl import flags

from lwt import errors
from lwt.data import labels, sources, splits, text, text_fields
from lwt.machine import command_line
from lwt.metrics import classification
from lwt.runs import config_file

CONFIG = "configs/embbert_finetune.py"
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0)  # of the support vector machine's regularization
FIELDS = 32
ALPHA = 10.0  # penalty of the ridge regression


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
    known = [names.encode(own, where=task)[0] for own in values]
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


def of_images(data, *, alpha=ALPHA):
    """``{"data", "classes", "train", "test", "accuracy", "majority"}``; majority is the share of the largest class.

    Args:
        data: ``KIND:NAME`` of a set with the splits train and test, or foldK and restK.
        alpha: penalty of the ridge regression.

    Raises:
        lwt.errors.DataError: the set has neither.
    """
    known = sources.splits(data)
    folds = [split for split in known if split.startswith("fold")]
    if not folds and not {"train", "test"} <= {*known}:
        raise errors.DataError(f"{data} has neither the splits train and test nor folds; it has: {', '.join(known)}")
    pairs = [(f"rest{fold[4:]}", fold) for fold in folds] or [("train", "test")]
    predicted, wanted, sizes = [], [], []
    for split, held_out in pairs:
        train, test = (sources.load(data, split=name) for name in (split, held_out))
        names = train.classes or tuple(sorted({record["label"] for record in train}))
        (x, y), (tested, own) = (fields(source, names) for source in (train, test))
        predicted.append(sklearn("linear_model").RidgeClassifier(alpha=alpha).fit(x, y).predict(tested))
        wanted.append(own)
        sizes.append(len(y))
    predicted, wanted = np.concatenate(predicted), np.concatenate(wanted)
    return {
        "data": data,
        "classes": len(names),
        "train": max(sizes),
        "test": len(wanted),
        "accuracy": round(classification.score(predicted, wanted, classes=len(names))["accuracy"], 4),
        "majority": round(float(np.bincount(wanted).max() / len(wanted)), 4),
    }


def fields(source, names):
    """``(features [n 32·32·c], labels [n])`` of a source of images; the features are between 0 and 1.

    Raises:
        lwt.errors.DataError: 32 × 32 fields do not divide the images.
    """
    records = source.read(0, len(source))
    images = np.stack([record["image"] for record in records])
    n, h, w, c = images.shape
    if h % FIELDS or w % FIELDS:
        raise errors.DataError(f"{source.name}: images of {h} × {w} do not divide into {FIELDS} × {FIELDS} fields")
    scale = 255 if images.dtype == np.uint8 else 1
    means = images.reshape(n, FIELDS, h // FIELDS, FIELDS, w // FIELDS, c).mean((2, 4), dtype=np.float64) / scale
    return means.reshape(n, -1), np.array([names.index(record["label"]) for record in records])


def sklearn(name):
    """A module of scikit-learn.

    Raises:
        lwt.errors.ConfigError: scikit-learn is not installed.
    """
    try:
        return importlib.import_module(f"sklearn.{name}")
    except ImportError as error:
        raise errors.ConfigError("the linear classifier needs scikit-learn: pip install lwt[bench]") from error


def main():
    """The program: prints one line of figures per data set."""
    values = flags.FLAGS
    if values.images:
        print(json.dumps(of_images(values.images, alpha=values.alpha)))
        return
    for task in values.tasks or config_file.module(CONFIG).TINYNLP:
        print(json.dumps(of_texts(task, more=values.more)), flush=True)


if __name__ == "__main__":
    flags.DEFINE_list("tasks", [], "Tasks of configs/embbert_finetune.py, or data=KIND:NAME; default: TinyNLP's.")
    flags.DEFINE_string("more", "", "Further arguments of that config, such as 'splits=code,leak_free=true'.")
    flags.DEFINE_string("images", "", "A set of images, KIND:NAME, to measure instead of texts.")
    flags.DEFINE_float("alpha", ALPHA, "Penalty of the ridge regression on images.")
    command_line.run(main, required=[])
