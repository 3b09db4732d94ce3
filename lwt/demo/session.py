"""A run and adapters on it, which answer one input after another. The page is one use of it."""

import dataclasses
import os

import numpy as np
from scipy import special

from lwt import errors
from lwt.demo import inputs, insight
from lwt.layers import linear
from lwt.machine import devices
from lwt.reparam import adapters
from lwt.runs import evaluation, experiment

BASE = "base"  # the run without an adapter
BEAMS = 4  # of beam search


class Session:
    """A run and its adapters: `answer` an input, or `look` inside.

    Switching adapters changes arrays only. They are merged into their base at the start, so that all of them run the
    same compiled programs, whatever their kind and rank.

    Args:
        workdir: of a run or bundle.
        checkpoint: "best", "last" or a step.
        base: folder of the run that `workdir` adapts, if it was moved.
        adapters: ``{name: folder}``; a folder is the workdir of a run that trained an adapter on this base, or its
            ``adapter``.

    Attributes:
        inputs: makes its batches, from `inputs.of`.
        names: `BASE` and the adapters.
        kind: of an answer: "translation", "class", "number", or "" for a pre-training run.

    Raises:
        lwt.errors.CheckpointError: there is no run or no adapter, or the adapter was trained on another base.
        lwt.errors.ConfigError: the name of an adapter is reserved.
    """

    def __init__(self, workdir, *, checkpoint="best", base="", adapters=None):
        self.experiment = experiment.load(workdir, checkpoint=checkpoint, base=base)
        self.inputs = inputs.of(self.experiment)
        self._mesh = devices.make_mesh({"data": -1})
        self._runs = {BASE: self._placed(self.experiment.weights, BASE)}
        if adapters:
            dense = linear.merge(self.experiment.weights)
            for name, folder in adapters.items():
                if name == BASE or not name:
                    raise errors.ConfigError(
                        f"--adapter={name}={folder}: the name {name!r} is reserved; choose another"
                    )
                self._runs[name] = self._placed(_merged(dense, folder), name)
        self.names = tuple(self._runs)
        self._reader = insight.Reader(self.experiment)
        self._evaluators = {}

    @property
    def kind(self):
        """The kind of an answer; see the class."""
        if hasattr(self.experiment.task, "generate"):
            return "translation"
        if not hasattr(self.experiment.task, "predict"):
            return ""
        return "class" if self.experiment.labels else "number"

    @property
    def heads(self):
        """``{attention: number of heads}`` of the attentions that `look` shows."""
        return self._reader.heads

    @property
    def layers(self):
        """The feed-forward layers whose memories `look` shows."""
        return self._reader.layers

    def answer(self, given, *, adapter=BASE, beams=1):
        """The model's answer to an input: a translation, ``{class: probability}``, or a number.

        Args:
            given: a tuple of texts or of the path of an image, one per field of ``inputs.fields``.
            beams: of a translation; 1 is greedy.

        Raises:
            lwt.errors.DataError: the input is empty, too long, or not an image.
            lwt.errors.ConfigError: a pre-training run gives no answers, or there is no such adapter.
        """
        if not self.kind:
            raise errors.ConfigError(
                f"{self.experiment.workdir}: task.name={self.experiment.config.task.name!r} gives no answers"
            )
        batches, weights = self.inputs.batches(given), self._run(adapter).weights
        if self.kind == "translation":
            data = self.inputs.data
            found = self._evaluator(beams).texts(
                weights, batches, tokenizer=data.tokenizer, count=1, max_length=data.max_length
            )
            return found[0]
        (output,) = self._evaluator(1).predictions(weights, batches, count=1)
        if not np.isfinite(output).all():
            raise errors.NotFinite(f"The model's output is not finite: {output!r:.60}.")
        if self.kind == "number":
            return float(np.squeeze(output))
        return dict(zip(self.experiment.labels, special.softmax(output).tolist(), strict=True))

    def look(self, given, *, adapter=BASE, answer=None):
        """Looks into the model while it reads an input, and a translator's `answer`: an `insight.Insight`."""
        more = (answer or "",) if self.kind == "translation" else ()
        (batch,) = self.inputs.batches(given, *more)
        return self._reader(self._run(adapter), batch)

    def _run(self, adapter):
        if adapter not in self.names:
            raise errors.ConfigError(f"adapter {adapter!r}: {errors.suggest(adapter, self.names)}")
        return self._runs[adapter]

    def _evaluator(self, beams):
        if beams not in self._evaluators:
            task = self.experiment.task
            if self.kind == "translation":
                task = dataclasses.replace(task, beams=beams, temperature=0.0)
            self._evaluators[beams] = evaluation.Evaluator(task, self.experiment.model, self._mesh)
        return self._evaluators[beams]

    def _placed(self, weights, name):
        """The run with these weights, on all devices."""
        placed = devices.put(weights, devices.replicated(self._mesh))
        return self.experiment.with_weights(placed, name=name, step=self.experiment.step)


def _merged(base, folder):
    """The weights of a base with the adapter in a folder merged in."""
    beside = os.path.join(folder, "adapter")
    found = adapters.load(beside if os.path.isdir(beside) else folder, base_fingerprint=adapters.fingerprint(base))
    return adapters.merge(base, found.expand(base))
