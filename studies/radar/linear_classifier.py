"""Measures the accuracy of a linear classifier on a set of images: a small network has to beat it.

    python -m studies.radar.linear_classifier --images=generated:radar_har,difficulty=hard
    python -m studies.radar.linear_classifier --images=folder:cifar10 --alpha=100

Prints one JSON object. It needs scikit-learn (``pip install '.[sklearn]'``).

The features are the means of 32 × 32 fields of each channel; the classifier is ridge regression. It learns the split
``train`` and is tested on ``test``; a recording with folds is cross-validated, so that every record is tested once.
"""

import json

import numpy as np
from absl import flags

from lwt import errors, extras
from lwt.data import sources
from lwt.machine import command_line
from lwt.metrics import classification

FIELDS = 32
ALPHA = 10.0  # penalty of the ridge regression


def of_images(data, *, alpha=ALPHA):
    """``{"data", "classes", "train", "test", "accuracy", "majority"}``; majority is the share of the largest class.

    Args:
        data: ``KIND:NAME`` of a set with the splits train and test, or foldK and restK.
        alpha: penalty of the ridge regression.

    Raises:
        lwt.errors.LwtError: the set has neither, or scikit-learn is not installed.
    """
    linear_model = extras.load("sklearn.linear_model", "the linear classifier")
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
        predicted.append(linear_model.RidgeClassifier(alpha=alpha).fit(x, y).predict(tested))
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


def main():
    """The program: prints one line of figures."""
    print(json.dumps(of_images(flags.FLAGS.images, alpha=flags.FLAGS.alpha)))


if __name__ == "__main__":
    flags.DEFINE_string("images", None, "A set of images, KIND:NAME.")
    flags.DEFINE_float("alpha", ALPHA, "Penalty of the ridge regression.", lower_bound=0)
    command_line.run(main, required=["images"])
