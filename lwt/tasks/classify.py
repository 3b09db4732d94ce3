"""Classification of records (a text, a pair of texts, an image) by softmax cross-entropy."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, values
from lwt.metrics import calibration, classification


@dataclasses.dataclass(frozen=True)
class Classify:
    """The task's settings; every method is pure.

    A batch holds `segments` `[b t]` (all 0 in a filler row), or `weight` `[b]` (0 there), and `label` `[b]`. A label
    outside the model's classes (-1) counts as a wrong answer and not in the loss. Records mixed from two classes also
    have `second` and `share` `[b]`: the loss is ``share`` times that of `label` plus ``1 - share`` times that of
    `second`.

    Both settings count in training only: evaluation reports plain negative log-likelihood.

    Attributes:
        label_smoothing: ε of the cross-entropy.
        class_weights: factor on the loss of a record, by the name of its label, ``{"spam": 3.0}`` (1 for others); or
            "balanced" for ``n / (c · n_k)`` of a class with n_k of the n training records, as in
            scikit-learn, so that the mean factor is 1; "" for none. `for_labels` makes numbers of them, `[c]`.
    """

    label_smoothing: float = 0.0
    class_weights: str | dict | tuple = ""

    METRICS = classification

    def __post_init__(self):
        values.require("task", self, label_smoothing=values.real(0, 1, below=True))
        weights = self.class_weights
        if hasattr(weights, "items"):
            for name, weight in weights.items():
                values.real(0).require(f"task.class_weights.{name}", weight)
        elif isinstance(weights, str):
            wanted = values.Value(lambda value: "" if value in ("", "balanced") else "'balanced' or {label: weight}")
            wanted.require("task.class_weights", weights)

    def for_labels(self, names, counts, *, records):
        """This task, with `class_weights` as one number for each class.

        Args:
            names: of the classes.
            counts: `[c]` training records of each class.
            records: the number of training records.

        Raises:
            lwt.errors.ConfigError: `class_weights` names an unknown label, or gives all training records a weight of 0.
        """
        given, counts = self.class_weights, np.asarray(counts, np.float64)
        if given == "balanced":
            weights = records / (np.maximum(counts, 1) * max((counts > 0).sum(), 1))
        else:
            for name in given:
                if name not in names:
                    raise errors.ConfigError(
                        f"task.class_weights names {name!r}, which is not a label; {errors.suggest(name, names)}"
                    )
            weights = np.array([given.get(name, 1.0) for name in names], np.float64)
        if not weights @ counts > 0:
            raise errors.ConfigError("task.class_weights is 0 for all labels of the training data; one must be above 0")
        return dataclasses.replace(self, class_weights=tuple(weights.tolist()))

    def loss(self, apply, batch, *, train=True, rngs=None):
        """``(sum, count, sums)`` over the real records of a batch.

        In training, the sums suffice for loss and accuracy; `evaluate` adds the counts of each class.
        """
        logits = apply(batch, train=train, rngs=rngs).astype(jnp.float32)
        sums = self._sums(logits, batch, train=train)
        sums["correct"] = (real_rows(batch) * (logits.argmax(-1) == batch["label"])).sum() * 1.0
        return sums["loss"], sums["known"], sums

    def evaluate(self, apply, batch):
        """Sums over one batch, without dropout or smoothing: those of `loss`, and three counts per class."""
        logits = self.predict(apply, batch)
        weights = real_rows(batch).astype(jnp.float32)
        counts = classification.sums(logits.argmax(-1), batch["label"], classes=logits.shape[-1], weights=weights)
        return self._sums(logits, batch, train=False) | counts

    def finish(self, sums):
        """Sums -> ``loss`` (nats per record), the figures of the `METRICS`, and ``unknown_labels`` if any."""
        known, examples = float(sums["known"]), float(sums["examples"])
        figures = {"loss": float(sums["loss"]) / max(known, 1.0)} | self.METRICS.finish(sums)
        return figures | ({"unknown_labels": int(examples - known)} if known < examples else {})

    def predict(self, apply, batch):
        """Logits `[b c]` in float32, one row per record; those of filler rows are meaningless."""
        return apply(batch, train=False).astype(jnp.float32)

    def probabilities(self, outputs):
        """Logits `[n c]` -> probabilities `[n c]` in float32."""
        return calibration.softmax(outputs).astype(np.float32)

    def score(self, predictions, references, *, groups=None):
        """The figures of `evaluate` and `finish`, from all predictions at once.

        Args:
            predictions: `[n c]` logits, or `[n]` class ids (which give no ``loss``).
            references: `[n]` class ids, -1 for an unknown class.
            groups: see `classification.score`.
        """
        predictions, references = np.asarray(predictions), np.asarray(references)
        if predictions.ndim == 1:
            return classification.score(predictions, references, groups=groups)
        classes = predictions.shape[1]
        figures = classification.score(predictions.argmax(-1), references, classes=classes, groups=groups)
        known = (references >= 0) & (references < classes)
        loss = float(cross_entropy(predictions[known], references[known]).sum()) / max(int(known.sum()), 1)
        figures = {"loss": loss} | figures
        return figures if known.all() else figures | {"unknown_labels": int((~known).sum())}

    def _sums(self, logits, batch, *, train):
        """The sums of both training and evaluation; the loop computes its speed from ``tokens``."""
        real = real_rows(batch)
        known = real & (batch["label"] >= 0) & (batch["label"] < logits.shape[-1])
        nats = self._weighted(logits, jnp.where(known, batch["label"], 0), train=train)
        if "second" in batch:
            other = self._weighted(logits, jnp.where(known, batch["second"], 0), train=train)
            nats = batch["share"] * nats + (1 - batch["share"]) * other
        loss = jnp.where(known, nats, 0.0).sum()
        sums = {"loss": loss, "known": known.sum() * 1.0, "examples": real.sum() * 1.0}
        return sums | ({"tokens": (batch["segments"] > 0).sum() * 1.0} if "segments" in batch else {})

    def _weighted(self, logits, labels, *, train):
        """The `nats` `[b]` of records, with the weights of their classes in training."""
        nats = self.nats(logits, labels, train=train)
        weighted = train and isinstance(self.class_weights, tuple)
        return nats * jnp.asarray(self.class_weights, jnp.float32)[labels] if weighted else nats

    def nats(self, logits, labels, *, train):
        """The loss `[b]` of records with known `labels` `[b]`, before the weights of classes."""
        return cross_entropy(logits, labels, smoothing=self.label_smoothing if train else 0.0)


def real_rows(batch):
    """The rows of a batch that hold a record: `[b]` bool."""
    return batch["weight"] > 0 if "weight" in batch else batch["segments"][:, 0] > 0


def cross_entropy(logits, labels, *, smoothing=0.0):
    """``-(1-ε) log p(label) - ε/c Σ_j log p(j)`` of every record: `[b c]`, `[b]` -> `[b]`, in nats."""
    log_p = jax.nn.log_softmax(logits)
    nats = -jnp.take_along_axis(log_p, labels[:, None], axis=1)[:, 0]
    return (1 - smoothing) * nats - smoothing * log_p.mean(-1)
