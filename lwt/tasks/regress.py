"""Regression of records (a text, a pair of texts) to one number by the mean squared error."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from lwt import errors
from lwt.metrics import correlation


@dataclasses.dataclass(frozen=True)
class Regress:
    """The task; every method is pure.

    A batch holds `segments` `[b t]` (all 0 in a filler row) and `label` `[b]` float32; the model has one output.
    """

    def loss(self, apply, batch, *, train=True, rngs=None):
        """``(sum, count, sums)`` over the real records of a batch."""
        return self._sums(self._values(apply, batch, train=train, rngs=rngs), batch)

    def evaluate(self, apply, batch):
        """Sums over one batch, without dropout."""
        return self._sums(self.predict(apply, batch), batch)[2]

    def finish(self, sums):
        """Sums -> ``loss`` (mean squared error) and ``examples``. Correlations need all records: see `score`."""
        examples = float(sums["examples"])
        if not examples > 0:
            raise errors.DataError("no record was rated: the split is empty")
        return {"loss": float(sums["loss"]) / examples, "examples": int(examples)}

    def predict(self, apply, batch):
        """Values `[b]` in float32, one per record; those of filler rows are meaningless."""
        return self._values(apply, batch, train=False)

    def score(self, predictions, references, *, groups=None):
        """``loss``, and what `correlation.score` and `error_figures` give, of all predictions at once."""
        figures = correlation.score(predictions, references, groups=groups)
        figures |= correlation.error_figures(predictions, references)
        difference = np.asarray(predictions, np.float64) - np.asarray(references, np.float64)
        return {"loss": float(np.mean(difference**2))} | figures

    def _target(self, labels):
        """The values to predict, made from the labels of the records; here the labels themselves."""
        return labels

    def _values(self, apply, batch, **options):
        outputs = apply(batch, **options)
        if outputs.shape[-1] != 1:
            raise errors.ConfigError(f"model.outputs={outputs.shape[-1]} must be 1: regression predicts one number")
        return outputs[:, 0].astype(jnp.float32)

    def _sums(self, values, batch):
        real = batch["segments"][:, 0] > 0
        loss = jnp.where(real, (values - self._target(batch["label"])) ** 2, 0.0).sum()
        examples = real.sum() * 1.0
        return loss, examples, {"loss": loss, "examples": examples, "tokens": (batch["segments"] > 0).sum() * 1.0}
