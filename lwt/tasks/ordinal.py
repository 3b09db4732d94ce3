"""Classification into classes with an order, such as one to five stars, where a near miss costs less than a far one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, values
from lwt.metrics import ordinal
from lwt.tasks import classify


@dataclasses.dataclass(frozen=True)
class Ordinal(classify.Classify):
    """The task's settings; every method is pure.

    Batches, answers and probabilities are those of `classify.Classify`; the order is that of the classes. In training
    the target of a record of class y is the distribution ``softmax_j(-s |j - y|)`` instead of y alone (Díaz and Marathe
    2019, "Soft Labels for Ordinal Regression", equation 1, with the absolute difference). The figures include those of
    `metrics.ordinal`.

    Attributes:
        sharpness: s; the larger, the less of the target lies on the neighbours of y.
    """

    sharpness: float = 2.0

    def __post_init__(self):
        super().__post_init__()
        values.require("task", self, sharpness=values.real(0, above=True))
        if self.label_smoothing:
            raise errors.ConfigError(
                f"task.label_smoothing={self.label_smoothing} has no effect: task.name='ordinal' has soft labels; see "
                "task.sharpness"
            )

    def evaluate(self, apply, batch):
        """The sums of `classify.Classify.evaluate`, and those of `metrics.ordinal`."""
        logits = self.predict(apply, batch)
        known = classify.real_rows(batch) & (batch["label"] >= 0)
        return super().evaluate(apply, batch) | ordinal.sums(logits.argmax(-1), batch["label"], weights=known)

    def finish(self, sums):
        """Sums -> figures; see `classify.Classify.finish`. In training there are no figures of `metrics.ordinal`."""
        return super().finish(sums) | (ordinal.finish(sums) if "ranks/count" in sums else {})

    def score(self, predictions, references, *, groups=None):
        """See `classify.Classify.score`."""
        answers, references = np.asarray(predictions), np.asarray(references)
        answers = answers.argmax(-1) if answers.ndim == 2 else answers
        figures = super().score(predictions, references, groups=groups)
        return figures | ordinal.finish(ordinal.sums(answers, references, weights=references >= 0))

    def nats(self, logits, labels, *, train):
        """See `classify.Classify.nats`."""
        if not train:
            return super().nats(logits, labels, train=False)
        away = jnp.abs(jnp.arange(logits.shape[-1]) - labels[:, None])
        targets = jax.nn.softmax(-self.sharpness * away, axis=-1)
        return -(targets * jax.nn.log_softmax(logits)).sum(-1)
