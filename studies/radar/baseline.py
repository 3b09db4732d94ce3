"""What a linear classifier makes of radar maps: the figure that a network has to beat.

    python -m studies.radar.baseline --data=generated:radar_har,difficulty=hard
    python -m studies.radar.baseline --data=folder:radar_parrad

Ridge regression on the means of 32 × 32 fields of each channel; of generated maps, trained on ``train`` and tested on
``test``; of the recording, five-fold cross-validation by event.
"""

import json

import numpy as np
from absl import flags

from lwt import errors
from lwt.data import sources
from lwt.machine import command_line
from lwt.metrics import classification

FIELDS = 32


def main():
    """The program: prints one line of figures."""
    print(json.dumps(baseline(flags.FLAGS.data, alpha=flags.FLAGS.alpha)))


def baseline(data, *, alpha=10.0):
    """``{"data", "classes", "train", "test", "accuracy", "majority"}`` of the ridge classifier.

    Args:
        data: ``KIND:NAME`` of a set with the splits train and test, or with foldK and restK; then every record is
            tested once.
        alpha: see `ridge`.

    Raises:
        lwt.errors.DataError: the set has neither.
    """
    there = sources.splits(data)
    folds = [split for split in there if split.startswith("fold")]
    if not folds and not {"train", "test"} <= {*there}:
        raise errors.DataError(f"{data} has neither the splits train and test, nor folds; there is: {', '.join(there)}")
    pairs = [(f"rest{fold[4:]}", fold) for fold in folds] or [("train", "test")]
    predicted, wanted, sizes = [], [], []
    for train, test in pairs:
        train, test = (sources.load(data, split=split) for split in (train, test))
        names = train.classes or tuple(sorted({record["label"] for record in train}))
        x, y = arrays(train, names)
        of_test, labels = arrays(test, names)
        predicted.append(ridge(x, y, of_test, classes=len(names), alpha=alpha))
        wanted.append(labels)
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


def arrays(source, names):
    """``(features [n 32·32·c], labels [n])`` of a source of images; features from 0 to 1.

    Raises:
        lwt.errors.DataError: a map that 32 × 32 fields do not divide.
    """
    records = source.read(0, len(source))
    images = np.stack([record["image"] for record in records])
    n, h, w, c = images.shape
    if h % FIELDS or w % FIELDS:
        raise errors.DataError(f"{source.name}: maps of {h} × {w} do not divide into {FIELDS} × {FIELDS} fields")
    scale = 255 if images.dtype == np.uint8 else 1
    means = images.reshape(n, FIELDS, h // FIELDS, FIELDS, w // FIELDS, c).mean((2, 4), dtype=np.float64) / scale
    return means.reshape(n, -1), np.array([names.index(record["label"]) for record in records])


def ridge(x, y, of, *, classes, alpha=10.0):
    """Classes of the rows `of`, `[m]`: the largest of the ridge regressions on ±1 for each class.

    ``W = (XᵀX + α)⁻¹ XᵀY`` with X `[n f]` and Y `[n c]` about their means; solved with ``XXᵀ`` where n < f.

    Args:
        x: `[n f]`; y: `[n]` classes; of: `[m f]`.
        alpha: α, in the units of x.
    """
    targets = np.where(y[:, None] == np.arange(classes), 1.0, -1.0)
    middle, offset = x.mean(0), targets.mean(0)
    x, targets = x - middle, targets - offset
    if len(x) < x.shape[1]:
        weights = x.T @ np.linalg.solve(x @ x.T + alpha * np.eye(len(x)), targets)
    else:
        weights = np.linalg.solve(x.T @ x + alpha * np.eye(x.shape[1]), x.T @ targets)
    return ((of - middle) @ weights + offset).argmax(1)


if __name__ == "__main__":
    flags.DEFINE_string("data", "generated:radar_har,difficulty=hard", "The maps: KIND:NAME.")
    flags.DEFINE_float("alpha", 10.0, "Strength of the penalty.")
    command_line.run(main, required=[])
