"""How alike two texts are: the cosine of their vectors."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from lwt import errors, values
from lwt.data.batches import compared_examples
from lwt.metrics import correlation
from lwt.tasks import regress


@dataclasses.dataclass(frozen=True)
class Similarity(regress.Regress):
    """Regression whose values are cosines. Its loss is the squared difference between the cosine and the label's place
    between `low` (0) and `high` (1), as in Reimers and Gurevych 2019 (arXiv 1908.10084, section 3).

    A batch is one of `compared_examples`; a filler row has segments 0.

    Attributes:
        low, high: the labels of texts that have nothing in common, and of texts that mean the same.
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        values.require("task", self, low=values.real(), high=values.real())
        if not self.low < self.high:
            raise errors.ConfigError(f"task.low={self.low} must be less than task.high={self.high}")

    def score(self, predictions, references, *, groups=None):
        """``loss``, and what `correlation.score` gives for cosines and labels."""
        difference = np.asarray(predictions, np.float64) - self.target(np.asarray(references, np.float64))
        return {"loss": float(np.mean(difference**2))} | correlation.score(predictions, references, groups=groups)

    def _values(self, apply, batch, **options):
        first = {name: batch[name] for name in ("ids", "segments")}
        second = {name: batch[f"{compared_examples.SECOND}{name}"] for name in first}
        x, y = (apply(side, method="text_vectors", normalize=True, **options) for side in (first, second))
        return (x * y).sum(-1).astype(jnp.float32)

    def target(self, labels):
        """The cosines that labels stand for."""
        return (labels - self.low) / (self.high - self.low)


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What `experiment.Experiment.embed` evaluates: the vector of each row; see `text_head.TextModel.text_vectors`."""

    normalize: bool | None = None

    def predict(self, apply, batch):
        """The vectors `[b d]` of a batch."""
        return apply(batch, method="text_vectors", normalize=self.normalize)
