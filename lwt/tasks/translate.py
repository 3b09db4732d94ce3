"""Sequence to sequence: cross-entropy on packed pairs, decoding, and metrics of texts.

Arithmetic prompts are the same task with other metrics.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp

from lwt import errors, values
from lwt.layers.losses import paired_loss, vocabulary_loss
from lwt.metrics import exact, rouge, translation
from lwt.tasks import decoding

BEAMS = 1000  # the most, of every sentence of a batch
METRICS = {"translation": translation, "exact_match": exact, "rouge": rouge}


@dataclasses.dataclass(frozen=True)
class Translate:
    """The task's settings; every method is pure.

    Attributes:
        label_smoothing: ε of the cross-entropy (training only: evaluation reports plain negative log-likelihood).
        rdrop: α of R-Drop, see `paired_loss`: in training, every pair is read twice with different dropout, and the
            divergence between the two predictions is added to the loss. A step costs twice as much. 0: no R-Drop.
        metrics: of decoded text: "translation" (sacreBLEU, chrF, mean sentence BLEU), "exact_match", "rouge".
        lowercase: whether scores of translations ignore case, as models of lower-cased text require.
        beams: 1 for greedy decoding.
        length_penalty: α of beam search; penalty: its form, see `decoding.beam`.
        force_end: whether an answer of the greatest length ends with the end mark (greedy and beam search).
        temperature: above 0, decoding samples instead.
        top_k, top_p: sample from the `top_k` likeliest tokens (0: all) that together reach `top_p`.
        dtype: operands of the vocabulary product.
        chunk: positions whose logits exist at a time.
    """

    label_smoothing: float = 0.0
    rdrop: float = 0.0
    metrics: tuple = ("translation",)
    lowercase: bool = True
    beams: int = 1
    length_penalty: float = 0.6
    penalty: str = "wu"
    force_end: bool = False
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    dtype: str = "float32"
    chunk: int = 512

    def __post_init__(self):
        for name in self.metrics:
            if name not in METRICS:
                raise errors.ConfigError(f"task.metrics={name!r}: {errors.suggest(name, METRICS)}")
        if self.penalty not in decoding.PENALTIES:
            raise errors.ConfigError(
                f"task.penalty={self.penalty!r}: {errors.suggest(self.penalty, decoding.PENALTIES)}"
            )
        values.require(
            "task",
            self,
            label_smoothing=values.real(0, 1, below=True),
            rdrop=values.real(0),
            beams=values.whole(1, BEAMS),
            length_penalty=values.real(0),
            temperature=values.real(0),
            top_k=values.whole(0),
            top_p=values.real(0, 1, above=True),
            chunk=values.whole(1),
        )

    def loss(self, apply, batch, *, train=True, rngs=None):
        """``(sum, count, sums)`` over the real target tokens of a batch of `pair_examples`."""
        twice = train and self.rdrop > 0
        hidden = apply(_doubled(batch) if twice else batch, train=train, rngs=rngs, method="hidden_states")
        loss = (
            functools.partial(paired_loss.paired_loss, weight=self.rdrop) if twice else vocabulary_loss.vocabulary_loss
        )
        sums = loss(
            hidden,
            apply(method="output_table"),
            targets=batch["targets"],
            weights=batch["target_segments"] > 0,
            bias=apply(method="output_bias"),
            smoothing=self.label_smoothing if train else 0.0,
            dtype=self.dtype,
            chunk=self.chunk,
        )
        return sums["loss"], sums["tokens"], sums | {"source_tokens": (batch["source_segments"] > 0).sum() * 1.0}

    def evaluate(self, apply, batch):
        """Sums over one batch, without dropout or smoothing."""
        return self.loss(apply, batch, train=False)[2]

    def finish(self, sums):
        """Sums -> ``loss`` (nats per token, with smoothing), ``perplexity`` (without), ``accuracy``, ``tokens``.

        With R-Drop ``loss`` includes the divergence, whose mean is ``divergence``.

        Raises:
            lwt.errors.DataError: no token was counted.
        """
        tokens = float(sums["tokens"])
        if not tokens > 0:
            raise errors.DataError("no target token was evaluated: the split is empty, or holds only padding")
        nats = float(sums["nll"]) / tokens
        apart = {"divergence": float(sums["divergence"]) / tokens} if "divergence" in sums else {}
        return {
            "loss": float(sums["loss"]) / tokens,
            "perplexity": math.exp(nats) if nats < 700 else math.inf,
            "accuracy": float(sums["correct"]) / tokens,
            "tokens": int(tokens),
            **apart,
        }

    def generate(self, apply, batch, *, length, vocabulary=None, shrink=False):
        """Decodes the sources of an evaluation batch to ids `[rows length]`, ended by eos and filled with pad.

        Args:
            vocabulary: number of real ids; higher ones only pad the table and are never produced.
            shrink: whether the last quarter of the rows goes on without the others; see `decoding`. It needs an `apply`
                that takes any number of rows. Sampling does not shrink.
        """
        segments = batch["source_segments"]
        memory = apply(batch["source"], segments, positions=batch["source_positions"], method="encode")
        cache = apply(memory, segments, length=length, method="start")
        step = functools.partial(apply, method="step")
        common = dict(batch=segments.shape[0], length=length, vocabulary=vocabulary, done=segments[:, 0] == 0)
        if self.temperature:
            key = jax.random.fold_in(jax.random.key(0), batch["example"][0])
            draw = dict(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
            return decoding.sample(step, cache, key=key, **draw, **common)[0]
        common |= {"force_end": self.force_end, "fewer": segments.shape[0] // 4 if shrink else 0}
        if self.beams > 1:
            options = dict(beams=self.beams, alpha=self.length_penalty, penalty=self.penalty)
            return decoding.beam(step, cache, **options, **common)[0]
        return decoding.greedy(step, cache, **common)[0]

    def score(self, hypotheses, references, *, groups=None):
        """Figures of decoded texts; `groups` is the group of each record, or None."""
        figures = {}
        for name in self.metrics:
            options = {"lowercase": self.lowercase} if name == "translation" else {}
            figures |= METRICS[name].score(hypotheses, references, groups=groups, **options)
        return figures

    def decoding(self):
        """A phrase that describes how text is decoded."""
        if self.temperature:
            return f"sampling, temperature {self.temperature:g}, top k {self.top_k}, top p {self.top_p:g}"
        if self.beams == 1:
            return "greedy"
        form = "" if self.penalty == "wu" else f" ({self.penalty})"
        return f"beam search, {self.beams} beams, length penalty {self.length_penalty:g}{form}"


def _doubled(batch):
    """The batch with every row twice; the copies are neighbours, so that rows stay on their devices."""
    return jax.tree.map(lambda x: jnp.repeat(x, 2, axis=0), batch)
