"""What both models are measured by, from their probabilities on the test part; and their worst errors."""

import dataclasses

import numpy as np

from lwt.metrics import calibration, classification, translation
from lwt.report import results

HEADER = ["model", "accuracy, %", "macro F1", "MCC", "ECE", "seconds", "parameters", "bytes"]
ERRORS = 20  # in the report
TEXT = 160  # letters of a text there


@dataclasses.dataclass(frozen=True)
class Model:
    """A fitted model and its answers.

    Attributes:
        name, about: what the table and the text call it.
        probabilities: `[n c]` of the test part, after temperature scaling on the validation part.
        seconds: to fit it; parameters, bytes: its size.
    """

    name: str
    about: str
    probabilities: np.ndarray
    seconds: float
    parameters: int
    bytes: int

    def figures(self, labels):
        """``{"accuracy", "f1_macro", "mcc", "ece", ...}`` on the labels `[n]` of the test part."""
        classes = self.probabilities.shape[1]
        found = classification.score(self.probabilities.argmax(1), labels, classes=classes)
        figures = {name: found[name] for name in ("accuracy", "f1_macro", "mcc")}
        figures["ece"] = calibration.expected_calibration_error(self.probabilities, labels)
        about = {"seconds": round(self.seconds, 1), "parameters": self.parameters, "bytes": self.bytes}
        return {"model": self.name, **figures, **about}


def calibrated(validation, labels, *, test):
    """Probabilities `[n c]` of the test part, after temperature scaling on those of the validation part."""
    logits = [np.log(np.maximum(probabilities, 1e-12)) for probabilities in (validation, test)]
    labels = np.asarray(labels)
    known = labels >= 0
    temperature = calibration.fit_temperature(logits[0][known], labels[known])
    return calibration.softmax(logits[1] / temperature)


def lines(models, labels):
    """The lines of the table, a list of texts for each model; see `HEADER`."""
    for model in models:
        found, count = model.figures(labels), len(labels)
        low, high = interval(found["accuracy"], count)
        accuracy = f"{100 * found['accuracy']:.1f} ({100 * low:.1f} to {100 * high:.1f})"
        yield [
            model.name, accuracy, f"{found['f1_macro']:.3f}",
            f"{found['mcc']:.3f}", f"{found['ece']:.3f}", f"{model.seconds:.0f}", f"{model.parameters:,}",
            f"{model.bytes:,}",
        ]  # fmt: skip


def interval(share, count):
    """``(low, high)``: the 95 % interval of a share of `count` records (Wilson 1927)."""
    from scipy import stats  # imported late: half a second that other programs need not spend

    return stats.binomtest(round(share * count), count).proportion_ci(method="wilson")


def plain(header, body):
    """A table for the console."""
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    for line in [header, *body]:
        first, *rest = (cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths)))
        yield "  ".join([first, *rest]).rstrip()


def markdown(models, labels):
    """The table of a page."""
    return results.markdown(HEADER, list(lines(models, labels)))


def errors(model, labels, *, rows, names):
    """The wrong answers, those of the highest score first: dicts of what ``errors.csv`` holds.

    Args:
        model: a `Model`.
        labels: classes of the test part, -1 if unknown.
        rows: of the test part, `table.Row`.
        names: of the classes.
    """
    found = []
    for row, label, shares in zip(rows, labels, model.probabilities, strict=True):
        answer = int(shares.argmax())
        if answer != label:
            place = {"file": row.path, "row": row.number, "label": row.label, "prediction": names[answer]}
            own = f"{shares[label]:.3f}" if label >= 0 else ""
            found.append({**place, "score": f"{shares[answer]:.3f}", "score_of_label": own, "text": row.text})
    return sorted(found, key=lambda error: (-float(error["score"]), error["row"]))


def shown(errors):
    """The worst errors as a table of a page."""
    header = ["row", "label", "prediction", "score", "text"]
    body = []
    for error in errors[:ERRORS]:
        texts = error["label"], error["prediction"], error["score"], _short(error["text"])
        body.append([str(error["row"]), *map(translation.escape, texts)])
    return results.markdown(header, body)


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
