"""Answers texts with the model of this folder; needs numpy, onnxruntime, and sentencepiece or tokenizers.

In Python: ``predict.load(FOLDER).predict([TEXT, ...])``. On a command line: FILE holds one text a line ("-": standard
input), the two texts of a pair with a tab between, and gets one answer a line.
"""

import argparse
import codecs
import hashlib
import json
import pathlib
import sys

import numpy as np

from lwt.export.service import rows

UTF_16 = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE  # how a text in UTF-16 begins
TABLES = (".csv", ".jsonl", ".json", ".parquet", ".xlsx")


def load(folder, *, threads=0):
    """Opens a folder, after comparing checksums; `threads` of the model on a CPU, 0: one for each core."""
    return Model(pathlib.Path(folder), threads=threads)


class Model:
    """A model with its `settings` and the `labels` of its classes; without any, it gives numbers or vectors."""

    def __init__(self, folder, *, threads=0):
        import onnxruntime

        self.settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        for name, digest in self.settings["files"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                raise ValueError(f"{folder / name} is damaged: its checksum is not that in settings.json")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        self._rows = rows.Rows(self.settings, folder)
        self.labels = self.settings["labels"]

    def predict(self, texts, *, threshold=None):
        """The label of each text, None where its probability is below `threshold`; or a number, as text.

        If a text may have several labels, those of at least this probability (None: the run's own thresholds).
        """
        if self.settings["answers"] == "vectors":
            raise TypeError("this model gives vectors: use embed")
        if not self.labels:
            return [f"{number:.4g}" for number in self.outputs(texts)]
        return self.choose(self.predict_proba(texts), threshold=threshold)

    def choose(self, shares, *, threshold=None):
        """The answers of `predict` to texts with the probabilities `shares`, those of `predict_proba`."""
        separator = self.settings["separator"]
        if not separator:
            return [self.labels[row.argmax()] if row.max() >= (threshold or 0) else None for row in shares]
        chosen = shares >= (self.settings["thresholds"] if threshold is None else threshold)
        return [separator.join(np.array(self.labels, object)[row]) for row in chosen]

    def predict_proba(self, texts):
        """The probabilities of the `labels`, one row for each text; they sum to 1 unless it may have several labels."""
        if not self.labels:
            raise TypeError(f"this model gives {self.settings['answers']}, not classes: use predict or embed")
        logits = self.outputs(texts).astype(np.float64) / self.settings["temperature"]
        if self.settings["separator"]:
            return np.exp(-np.logaddexp(0, -logits)).astype(np.float32)
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        return (shares / shares.sum(-1, keepdims=True)).astype(np.float32)

    def embed(self, texts):
        """The vector of each text, for a model that gives vectors; the cosine of two says how alike the texts are."""
        if self.settings["answers"] != "vectors":
            raise TypeError(f"this model gives {self.settings['answers']}, not vectors: use predict or outputs")
        return self.outputs(texts)

    def outputs(self, texts):
        """What the model computes for each text: a row of logits, a number, or a vector."""
        outputs = [None] * len(texts)
        for numbers, batch in self._rows.batches(texts):
            for number, output in zip(numbers, self._session.run(["output"], batch)[0], strict=True):
                outputs[number] = output
        return np.stack(outputs) if outputs else np.zeros((0, len(self.labels)), np.float32)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a text file, or - for standard input")
    parser.add_argument("--scores", action="store_true", help="print a tab and the highest probability, too")
    parser.add_argument("--threshold", type=float, help="give no answer whose probability is lower")
    flags = parser.parse_args()
    if pathlib.Path(flags.file).suffix.lower() in TABLES:
        parser.error(f"{flags.file} is a table; FILE must hold one text a line, such as one column of it")
    try:
        content = sys.stdin.buffer.read() if flags.file == "-" else pathlib.Path(flags.file).read_bytes()
        content = content.decode("utf-16" if content.startswith(UTF_16) else "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        parser.error(f"{flags.file} cannot be read as text in UTF-8: {error}")
    texts = content.replace("\r\n", "\n").removesuffix("\n").split("\n") if content else []
    model = load(pathlib.Path(__file__).parent)
    if (flags.scores or flags.threshold is not None) and not model.labels:
        parser.error("--scores and --threshold need a model with labels")
    try:
        lines = _lines(model, texts, scores=flags.scores, threshold=flags.threshold)
    except ValueError as error:  # such as a line that is no pair
        parser.error(f"{flags.file}: {error}")
    print(*lines, sep="\n", end="\n" if lines else "")


def _lines(model, texts, *, scores, threshold):
    """The answers as lines to print."""
    if model.settings["answers"] == "vectors":
        return [" ".join(f"{number:.6g}" for number in vector) for vector in model.embed(texts)]
    if not model.labels:
        return model.predict(texts)
    shares = model.predict_proba(texts)
    shown = [f"\t{row.max():.6f}" if scores else "" for row in shares]
    answers = model.choose(shares, threshold=threshold)
    return [(answer or "") + score for answer, score in zip(answers, shown, strict=True)]
