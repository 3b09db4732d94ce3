"""What an opened run answers to texts: answers, probabilities, and files of both."""

import logging

import numpy as np

from lwt import errors
from lwt.layers import text_head
from lwt.machine import devices
from lwt.runs import answers, calibration, evaluation
from lwt.tasks import similarity

NO_HEAD = "; the model has no classifier: fine-tune it (configs/finetune.py), or take its vectors (embed)"
LOG = logging.getLogger(__name__)


class Predictor:
    """The part of `experiment.Experiment` that answers; it reads the attributes listed there."""

    adapters = None

    def calibrate(self):
        """Fits the temperature (or thresholds) to the validation set, and keeps it in the run; see `calibration.fit`.

        Returns what was measured before and after. Probabilities and answers use it from then on.
        """
        found = calibration.fit(self)
        self.calibration = calibration.read(self.workdir, step=self.step)
        return found

    def predict(self, texts, *, adapters=None):
        """One answer for each text (or path of an image), in order: the decoded text, or the class or number as text.

        One warning counts the texts that are too long, and are cut.

        Args:
            texts: a list of texts.
            adapters: for each text, the name of the adapter that answers it, of those given to `lwt.load`; None: no
                adapter does.

        Raises:
            lwt.errors.ConfigError: a pre-training run gives no answers; an adapter is unknown, or there is not one for
                each text. For other errors see `inputs.checked`.
        """
        if adapters is not None:
            return self._stacked().predict(texts, adapters=adapters)
        outputs, cut = self.outputs(texts)
        self.warn_of_cut(cut)
        return self.answers(outputs)

    def predict_proba(self, texts, *, adapters=None):
        """The probabilities of the classes `labels` for each text, `[n c]` float32, whose rows sum to 1.

        Where a text may have several labels, each column is the probability of its label alone. With `adapters`, whose
        classes may differ, the result is a list of ``{class: probability}``; see `predict`.

        Raises:
            lwt.errors.ConfigError: the task gives no probabilities; for other errors see `predict`.
        """
        if adapters is not None:
            return self._stacked().predict_proba(texts, adapters=adapters)
        if not hasattr(self.task, "probabilities"):
            raise errors.ConfigError(f"{self.workdir}: task.name={self.config.task['name']!r} gives no probabilities")
        outputs, cut = self.outputs(texts)
        self.warn_of_cut(cut)
        return self.probabilities(outputs)

    def _stacked(self):
        """The stack of the adapters."""
        if not self.adapters:
            raise errors.ConfigError(
                f"{self.workdir} was opened without adapters; give lwt.load their names and folders"
            )
        return self.adapters

    def embed(self, texts, *, normalize=None):
        """A vector for each text, `[n d]` float32, in order: the text encoder's states, pooled as ``model.pool`` says.

        Args:
            texts: a list of texts.
            normalize: whether the vectors get length 1; None: as ``model.normalize`` says.

        Raises:
            lwt.errors.ConfigError: the model is not a text encoder, or its pool compares two texts.
        """
        if not isinstance(self.model, text_head.TextModel) or self.model.pool == "pair":
            raise errors.ConfigError(
                f"{self.workdir}: model.name={self.config.model.name!r} gives no vector for a text; embed needs a text "
                "encoder whose model.pool is not 'pair'"
            )
        found = self.data.alone(texts)
        if not found.sources:
            return np.zeros((0, self.model.width), np.float32)
        self.warn_of_cut(self.data.cut(found))
        embedders = vars(self).setdefault("_embedders", {})  # each compiles its own program, once
        if normalize not in embedders:
            mesh = devices.make_mesh({"data": -1})
            embedders[normalize] = evaluation.Evaluator(similarity.Vectors(normalize), self.model, mesh)
        return embedders[normalize].outputs(self.weights, self.data, evaluation=found)

    def predict_file(self, path, *, output=None, out="", wanted=None):
        """Answers the texts of a file, in order, on standard output: one line each, or a table; see `answers.write`."""
        answers.write(self, path, output=output, out=out, wanted=wanted)

    def outputs(self, texts):
        """``(outputs, cut)``: the task's raw outputs for texts, and the number of texts that were cut.

        Outputs are decoded texts, or an array `[n c]` of logits or `[n]` of numbers.
        """
        if not hasattr(self.task, "generate") and not hasattr(self.task, "predict"):
            hint = "" if getattr(self.model, "head", "") != "none" else NO_HEAD
            raise errors.ConfigError(
                f"{self.workdir}: task.name={self.config.task.name!r} gives no answers to texts{hint}"
            )
        found = self.data.from_texts(texts)
        if not found.sources:
            return [] if hasattr(self.task, "generate") else np.zeros((0, len(self.labels) or 1), np.float32), 0
        return self._evaluator.outputs(self.weights, self.data, evaluation=found), self.data.cut(found)

    def answers(self, outputs):
        """The answers, as texts, of raw `outputs`."""
        if hasattr(self.task, "generate"):
            return outputs
        return self.data.answers(self.calibration.decided(outputs) if self.calibration else outputs)

    def probabilities(self, outputs):
        """The probabilities `[n c]` float32 of raw `outputs`, after temperature scaling if a temperature was fitted."""
        temperature = self.calibration.temperature if self.calibration else 1.0
        return self.task.probabilities(np.asarray(outputs) / temperature)

    def warn_of_cut(self, cut):
        """Logs the number of texts that were cut, if any."""
        if cut:
            LOG.warning("texts longer than the %d tokens of a row, which were cut: %d", self.data.longest, cut)
