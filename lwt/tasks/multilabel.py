"""Classification of records with several labels or none, by a sigmoid cross-entropy for each class."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lwt.metrics import multilabel
from lwt.tasks import classify


@dataclasses.dataclass(frozen=True)
class Multilabel(classify.Classify):
    """The task's settings; every method is pure.

    A batch is that of `classify.Classify`, but `label` is `[b c]`: 1 for the classes of a record and 0 for the others,
    or all -1 if it has an unknown label; then it does not count in the loss and its answer is wrong. A class is
    predicted where its logit is above 0.

    Attributes:
        label_smoothing: ε: targets are ``ε/2`` and ``1 - ε/2``.
        class_weights: factor on the loss of the records that have a label, by its name; or "balanced" for
            ``(n - n_k) / n_k`` of a class with n_k of the n training records; 1 if these are all or none.
    """

    METRICS = multilabel

    def for_labels(self, names, counts, *, records):
        """See `classify.Classify.for_labels`."""
        if self.class_weights != "balanced":
            return super().for_labels(names, counts, records=records)
        counts = np.asarray(counts, np.float64)
        weights = np.where((counts > 0) & (counts < records), (records - counts) / np.maximum(counts, 1), 1.0)
        return dataclasses.replace(self, class_weights=tuple(weights.tolist()))

    def loss(self, apply, batch, *, train=True, rngs=None):
        """``(sum, count, sums)`` over the real records of a batch; a record's loss is the mean over its classes."""
        logits = apply(batch, train=train, rngs=rngs).astype(jnp.float32)
        sums = self._sums(logits, batch, train=train)
        right = ((logits > 0) == (batch["label"] > 0)).all(axis=1)
        sums["exact"] = (_known(batch) * right).sum() * 1.0
        return sums["loss"], sums["known"], sums

    def evaluate(self, apply, batch):
        """Sums over one batch, without dropout or smoothing: those of `loss`, and three counts per class."""
        logits = self.predict(apply, batch)
        counts = multilabel.sums(logits, batch["label"], weights=_known(batch))
        examples = classify.real_rows(batch).sum() * 1.0
        return self._sums(logits, batch, train=False) | counts | {"examples": examples}

    def probabilities(self, outputs):
        """Logits `[n c]` -> probabilities `[n c]` in float32, each of its class alone."""
        return np.asarray(jax.nn.sigmoid(jnp.asarray(outputs, jnp.float32)))

    def score(self, predictions, references, *, groups=None):
        """The figures of `evaluate` and `finish`, from all predictions at once.

        Args:
            predictions: `[n c]` logits.
            references: `[n c]`, see above.
            groups: see `multilabel.score`.
        """
        predictions, references = np.asarray(predictions, np.float32), np.asarray(references)
        known = (references >= 0).all(axis=1)
        loss = float(binary_cross_entropy(predictions[known], references[known]).mean(-1).sum())
        figures = {"loss": loss / max(int(known.sum()), 1)}
        figures |= multilabel.score(predictions, references, groups=groups)
        return figures if known.all() else figures | {"unknown_labels": int((~known).sum())}

    def _sums(self, logits, batch, *, train):
        real, known = classify.real_rows(batch), _known(batch)
        labels = jnp.where(known[:, None], batch["label"], 0).astype(jnp.float32)
        smoothing = self.label_smoothing if train else 0.0
        targets = labels * (1 - smoothing) + smoothing / 2
        nats = binary_cross_entropy(logits, targets)
        if train and isinstance(self.class_weights, tuple):
            nats = nats * jnp.where(labels > 0, jnp.asarray(self.class_weights, jnp.float32), 1.0)
        loss = jnp.where(known, nats.mean(-1), 0.0).sum()
        sums = {"loss": loss, "known": known.sum() * 1.0, "examples": real.sum() * 1.0}
        return sums | ({"tokens": (batch["segments"] > 0).sum() * 1.0} if "segments" in batch else {})


def binary_cross_entropy(logits, targets):
    """``-y log σ(x) - (1-y) log σ(-x)`` of every entry, in nats."""
    return -targets * jax.nn.log_sigmoid(logits) - (1 - targets) * jax.nn.log_sigmoid(-logits)


def _known(batch):
    """The rows that hold a record without an unknown label: `[b]` bool."""
    return classify.real_rows(batch) & (batch["label"] >= 0).all(axis=1)
