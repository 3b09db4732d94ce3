"""What an evaluation of a classifier says beside its figures: per class, as a confusion matrix, and how calibrated."""

import csv
import io
import logging

import numpy as np

from lwt.metrics import classification, multilabel
from lwt.runs import calibration

LOG = logging.getLogger(__name__)
NUMBERED = 30  # classes up to which the cells of the picture have numbers
NAMED = 60  # classes up to which its axes have names
LONGEST = 28  # letters of a name in the picture
UNKNOWN = "?"  # a label outside the classes


def of(outputs, references, *, names, fitted=None):
    """``(figures, contents)`` of all outputs of a classifier.

    The figures are ``ece`` (expected calibration error) and ``per_class``. With a fitted `calibration.Calibration`,
    what it changes follows with the ending ``_calibrated``, and ``temperature``. The contents are those of the files
    ``confusion.csv`` and ``confusion.png``, by suffix; without matplotlib there is no picture. Where a record may have
    several labels, there is no ``ece`` and no confusion matrix.

    Args:
        outputs: `[n c]` logits.
        references: `[n]` class ids, -1 for an unknown class; or `[n c]`, see `multilabel.Multilabel`.
        names: of the classes.
    """
    references, figures = np.asarray(references), {}
    if references.ndim == 1:
        figures["ece"] = calibration.figures(calibration.NONE, outputs, labels=references)["ece"]
    if fitted:
        after = calibration.figures(fitted, outputs, labels=references)
        figures |= {} if fitted.thresholds else {"temperature": fitted.temperature}
        figures |= {f"{name}_calibrated": value for name, value in after.items() if name != "examples"}
    if references.ndim == 2:
        known = (references >= 0).all(axis=1)
        answers = (fitted or calibration.NONE).decided(outputs)[known]
        return figures | {"per_class": multilabel.per_class(answers, references[known], names=names)}, {}
    counts = classification.confusion(np.argmax(outputs, axis=1), references, classes=len(names))
    figures["per_class"] = classification.per_class(counts, names=names)
    rows = counts if counts[-1].any() else counts[:-1]
    picture = draw(rows, names=names)
    return figures, {"confusion.csv": table(rows, names=names)} | ({"confusion.png": picture} if picture else {})


def table(counts, *, names):
    """The confusion matrix as a ``.csv``: a line for each label, a column for each prediction."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["label", *names])
    for name, row in zip([*names, UNKNOWN], counts.tolist()):
        writer.writerow([name, *row])
    return text.getvalue()


def draw(counts, *, names):
    """The confusion matrix as a PNG, coloured by the share of its row; None, with a log line, without matplotlib."""
    try:
        from matplotlib import figure as figures  # imported here because it is slow
    except ImportError:
        LOG.warning("the confusion matrix is not drawn: pip install matplotlib")
        return None
    classes, total = len(names), counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(total, 1)
    side = min(3.5 + 0.4 * classes, 22)
    figure = figures.Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    picture = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    figure.colorbar(picture, ax=axes, label="share of the label's records")
    axes.set_xlabel("prediction")
    axes.set_ylabel("label")
    if classes <= NAMED:
        short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in [*names, UNKNOWN]]
        axes.set_xticks(range(classes), [_plain(name) for name in short[:classes]], rotation=90)
        axes.set_yticks(range(len(counts)), [_plain(name) for name in short[: len(counts)]])
    if classes <= NUMBERED:
        for (i, j), count in np.ndenumerate(counts):
            color = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, str(count), ha="center", va="center", color=color, fontsize=8)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    return content.getvalue()


def _plain(name):
    """A name that matplotlib does not read as a formula."""
    return name.replace("$", r"\$")
