"""Pre-training of text encoders: masked language modelling and next-sentence prediction (Devlin et al. 2019)."""

import dataclasses
import math

import jax.numpy as jnp

from lwt import errors, values
from lwt.layers.losses import vocabulary_loss
from lwt.tasks import classify


@dataclasses.dataclass(frozen=True)
class MaskedLm:
    """The task's settings; every method is pure.

    The objective is ``Σ nll(masked) / masked + Σ nll(next sentence) / records``: two means, while a training step
    divides once, by the number of records. So `loss` returns ``records · (Σ nll(masked) / masked) + Σ nll(next
    sentence)``. This equals the objective for a batch on any number of devices; when a step accumulates microbatches,
    the first mean becomes the mean of theirs, weighted by records.

    Attributes:
        dtype: operands of the vocabulary product, which is computed for the masked positions only.
        chunk: positions whose logits exist at a time.
    """

    dtype: str = "float32"
    chunk: int = 256

    def __post_init__(self):
        values.require("task", self, chunk=values.whole(1))

    def loss(self, apply, batch, *, train=True, rngs=None):
        """``(sum, count, sums)`` over the masked tokens and the real records of a batch of `masked_examples`.

        Filler rows have segments and weights 0.
        """
        hidden = apply(batch, train=train, rngs=rngs, method="hidden_states")
        table, bias = apply(method="output_layer")
        masked = vocabulary_loss.vocabulary_loss(
            jnp.take_along_axis(hidden, batch["masked_positions"][..., None], axis=1, mode="clip"),
            table,
            targets=batch["masked_targets"],
            weights=batch["masked_weights"],
            bias=bias,
            dtype=self.dtype,
            chunk=self.chunk,
        )
        logits = apply(hidden, batch, method="next_sentence").astype(jnp.float32)
        real = batch["segments"][:, 0] > 0
        next_nll = jnp.where(real, classify.cross_entropy(logits, batch["next_sentence"]), 0.0).sum()
        examples = real.sum() * 1.0
        # "loss", not "nll": only "loss" of the vocabulary's sums is differentiable
        loss = examples * masked["loss"] / jnp.maximum(masked["tokens"], 1.0) + next_nll
        sums = {
            "loss": loss,
            "examples": examples,
            "masked": masked["tokens"],
            "mlm_nll": masked["nll"],
            "mlm_correct": masked["correct"],
            "nsp_nll": next_nll,
            "nsp_correct": (real * (logits.argmax(-1) == batch["next_sentence"])).sum() * 1.0,
            "tokens": (batch["segments"] > 0).sum() * 1.0,
        }
        return loss, examples, sums

    def evaluate(self, apply, batch):
        """Sums over one batch, without dropout."""
        return self.loss(apply, batch, train=False)[2]

    def finish(self, sums):
        """Sums -> ``mlm_loss`` (nats per masked token), ``nsp_loss``, their sum ``loss``, accuracies and counts.

        Without a masked token, as in a few short rows, its figures are not numbers.

        Raises:
            lwt.errors.DataError: there is no record.
        """
        examples, masked = float(sums["examples"]), float(sums["masked"])
        if not examples > 0:
            raise errors.DataError("no records: the split is empty")
        mlm, correct = (float(sums[name]) / masked if masked else math.nan for name in ("mlm_nll", "mlm_correct"))
        nsp = float(sums["nsp_nll"]) / examples
        return {
            "loss": mlm + nsp,
            "mlm_loss": mlm,
            "mlm_perplexity": math.inf if mlm >= 700 else math.exp(mlm),
            "mlm_accuracy": correct,
            "nsp_loss": nsp,
            "nsp_accuracy": float(sums["nsp_correct"]) / examples,
            "masked": int(masked),
            "examples": int(examples),
        }
