"""A run, and adapters on it, to be asked about one input after another. The page is one use of it."""

import dataclasses
import pathlib

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
    """An opened run and its adapters: `answer`, and `look` inside.

    Switching changes arrays only. Adapters are merged into their base when they are opened, so that all of them run the
    same compiled programs, whatever their kind and rank.

    Args:
        workdir: of a run, or a bundle.
        checkpoint: "best", "last" or a step.
        given: ``{name: folder}`` of adapters: workdirs of runs that trained one on this base, or their ``adapter``.

    Attributes:
        opened: the run, an `experiment.Experiment`.
        inputs: what the run reads, from `inputs.of`.
        names: `BASE` and the adapters.
        kind: of an answer: "translation", "class", "number", or "" for a run of pre-training.

    Raises:
        lwt.errors.CheckpointError: there is no run, or no adapter, or one that was trained on another base.
        lwt.errors.ConfigError: an adapter may not be called that.
    """

    def __init__(self, workdir, *, checkpoint="best", given=None):
        self.opened = experiment.load(workdir, checkpoint=checkpoint)
        self.inputs = inputs.of(self.opened)
        self._mesh = devices.make_mesh({"data": -1})
        self._runs = {BASE: self._placed(self.opened.weights, BASE)}
        if given:
            dense = linear.merge(self.opened.weights)
            for name, folder in given.items():
                if name == BASE or not name:
                    raise errors.ConfigError(f"--adapter={name}={folder}: give it another name than {name!r}")
                self._runs[name] = self._placed(_merged(dense, folder), name)
        self.names = tuple(self._runs)
        self._reader = insight.Reader(self.opened)
        self._evaluators = {}

    @property
    def kind(self):
        """See the class."""
        if hasattr(self.opened.task, "generate"):
            return "translation"
        if not hasattr(self.opened.task, "predict"):
            return ""
        return "class" if self.opened.labels else "number"

    @property
    def heads(self):
        """``{attention: its heads}`` of the attentions that can be looked at."""
        return self._reader.heads

    @property
    def layers(self):
        """The feed-forward layers whose memories can be looked at."""
        return self._reader.layers

    def answer(self, given, *, adapter=BASE, beams=1):
        """What the model makes of an input.

        Args:
            given: a tuple of texts, or of the path of an image: as many as ``inputs.fields``.
            adapter: one of `names`.
            beams: of a translation; 1 is greedy.

        Returns:
            A translation; ``{class: probability}``; or a number.

        Raises:
            lwt.errors.DataError: nothing is given, or too much, or no image.
            lwt.errors.ConfigError: a run of pre-training gives no answers.
        """
        if not self.kind:
            raise errors.ConfigError(
                f"{self.opened.workdir}: task.name={self.opened.config.task.name!r} has no answers"
            )
        batches, weights = self.inputs.batches(given), self._runs[adapter].weights
        if self.kind == "translation":
            data = self.inputs.data
            found = self._evaluator(beams).texts(
                weights, batches, tokenizer=data.tokenizer, count=1, max_length=data.max_length
            )
            return found[0]
        (output,) = self._evaluator(1).predictions(weights, batches, count=1)
        if self.kind == "number":
            return float(np.squeeze(output))
        return dict(zip(self.opened.labels, special.softmax(output).tolist(), strict=True))

    def look(self, given, *, adapter=BASE, answer=None):
        """An `insight.Insight` of an input; of a translation, with what was answered as the target.

        Args: see `answer`; its result.
        """
        more = (answer or "",) if self.kind == "translation" else ()
        (batch,) = self.inputs.batches(given, *more)
        return self._reader(self._runs[adapter], batch)

    def _evaluator(self, beams):
        """The evaluator that decodes with so many beams, and whatever else the task has."""
        if beams not in self._evaluators:
            task = self.opened.task
            if self.kind == "translation":
                task = dataclasses.replace(task, beams=beams, temperature=0.0)
            self._evaluators[beams] = evaluation.Evaluator(task, self.opened.model, self._mesh)
        return self._evaluators[beams]

    def _placed(self, weights, name):
        """The run with these weights, on all devices."""
        placed = devices.put(weights, devices.replicated(self._mesh))
        return self.opened.with_weights(placed, name=name, step=self.opened.step)


def _merged(base, folder):
    """The weights of a base with the adapter in a folder."""
    beside = pathlib.Path(folder, "adapter")
    found = adapters.load(beside if beside.is_dir() else folder, base_fingerprint=adapters.fingerprint(base))
    return adapters.merge(base, found.expand(base))
