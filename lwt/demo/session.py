"""A run and adapters on it, which answer one input after another. The page is one use of it."""

import contextlib
import dataclasses
import json

import numpy as np

from lwt import errors
from lwt.demo import inputs, insight
from lwt.layers import linear
from lwt.machine import devices
from lwt.reparam import adapters
from lwt.runs import adapter_folder, evaluation, experiment, run_config

BASE = "base"  # the run without an adapter
BEAMS = 4  # of beam search


class Session:
    """A run and its adapters: `answer` an input, or `look` inside.

    Switching adapters changes arrays only. They are merged into their base at the start, so that all adapters for the
    same classes run the same compiled programs, whatever their kind and rank. An adapter with a head of its own may
    have other classes than the base.

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
        lwt.errors.ConfigError: the name of an adapter is reserved, or its inputs differ from the base's.
    """

    def __init__(self, workdir, *, checkpoint="best", base="", adapters=None):
        self.experiment = experiment.load(workdir, checkpoint=checkpoint, base=base)
        self._mesh = devices.make_mesh({"data": -1})
        self._runs = {BASE: self._placed(self.experiment, BASE)}
        for name, folder in (adapters or {}).items():
            if name == BASE or not name:
                raise errors.ConfigError(f"--adapter={name}={folder}: the name {name!r} is reserved; choose another")
            self._runs[name] = self._placed(_adapted(self.experiment, folder), name)
        self.names, self._readers, self._evaluators = tuple(self._runs), {}, {}
        self._inputs = {name: inputs.of(run) for name, run in self._runs.items()}
        self.inputs, kinds = self._inputs[BASE], {name: _kind(run) for name, run in self._runs.items()}
        self.kind = kinds[BASE] or next(filter(None, kinds.values()), "")  # a pre-training run may be the base
        for name, own in self._inputs.items():
            if kinds[name] not in ("", self.kind) or len(own.fields) != len(self.inputs.fields):
                given = [" and ".join(one.fields) for one in (own, self.inputs)]
                raise errors.ConfigError(
                    f"--adapter={name}={adapters[name]} answers {given[0]} with a {kinds[name]}; it must answer "
                    f"{given[1]} with a {self.kind}"
                )

    @property
    def heads(self):
        """``{attention: number of heads}`` of the attentions that `look` shows."""
        return self._reader(self.experiment).heads

    @property
    def layers(self):
        """The feed-forward layers whose memories `look` shows."""
        return self._reader(self.experiment).layers

    def answer(self, given, *, adapter=BASE, beams=1):
        """The model's answer to an input: a translation, ``{class: probability}``, or a number.

        Args:
            given: a tuple of texts or of the path of an image, one per field of ``inputs.fields``.
            beams: of a translation; 1 is greedy.

        Raises:
            lwt.errors.DataError: the input is empty, too long, or not an image.
            lwt.errors.ConfigError: a pre-training run gives no answers, or there is no such adapter.
        """
        run = self._run(adapter)
        if not _kind(run):
            raise errors.ConfigError(f"{run.workdir}: task.name={run.config.task.name!r} gives no answers")
        batches, weights, evaluator = self._inputs[adapter].batches(given), run.weights, self._evaluator(run, beams)
        if self.kind == "translation":
            data = self.inputs.data
            found = evaluator.texts(weights, batches, tokenizer=data.tokenizer, count=1, max_length=data.max_length)
            return found[0]
        (output,) = evaluator.predictions(weights, batches, count=1)
        if not np.isfinite(output).all():
            raise errors.NotFinite(f"The model's output is not finite: {output!r:.60}.")
        if self.kind == "number":
            return float(np.squeeze(output))
        return dict(zip(run.labels, run.probabilities(np.reshape(output, (1, -1)))[0].tolist(), strict=True))

    def table(self, path, out, *, adapter=BASE):
        """Answers the records of a file, and writes them to `out` with a column for the answer and its probability.

        Raises:
            lwt.errors.DataError: the file cannot be read, or lacks a field.
            lwt.errors.ConfigError: a pre-training run gives no answers, or there is no such adapter.
        """
        self._run(adapter).predict_file(path, out=out)

    def prepare(self, *, first=False):
        """Compiles what answers and looks need: for inputs of all lengths, or of the shortest alone (`first`)."""
        for sample in self.inputs.samples():
            with contextlib.suppress(errors.LwtError):  # a sample may be longer than the run reads
                answer = self.answer(sample) if self.kind else None
                self.look(sample, answer=answer)
            if first:
                return

    def look(self, given, *, adapter=BASE, answer=None):
        """Looks into the model while it reads an input, and a translator's `answer`: an `insight.Insight`."""
        run, more = self._run(adapter), (answer or "",) if self.kind == "translation" else ()
        (batch,) = self._inputs[adapter].batches(given, *more)
        return self._reader(run)(run, batch)

    def _run(self, adapter):
        if adapter not in self.names:
            raise errors.ConfigError(f"adapter {adapter!r}: {errors.suggest(adapter, self.names)}")
        return self._runs[adapter]

    def _reader(self, run):
        key = _model_of(run)
        if key not in self._readers:
            self._readers[key] = insight.Reader(run)
        return self._readers[key]

    def _evaluator(self, run, beams):
        task = run.task
        if self.kind == "translation":
            task = dataclasses.replace(task, beams=beams, temperature=0.0)
        key = (_model_of(run), repr(task))  # its class weights may be a dict
        if key not in self._evaluators:
            self._evaluators[key] = evaluation.Evaluator(task, run.model, self._mesh)
        return self._evaluators[key]

    def _placed(self, run, name):
        """A run with its weights on all devices."""
        placed = devices.put(run.weights, devices.replicated(self._mesh))
        return run.with_weights(placed, name=name, step=run.step)


def _kind(run):
    """The kind of the answers of a run; see `Session`."""
    if hasattr(run.task, "generate"):
        return "translation"
    if not hasattr(run.task, "predict"):
        return ""
    return "class" if run.labels else "number"


def _model_of(run):
    """What two runs share that run the same compiled programs."""
    return json.dumps(run.identity["model"]), len(run.labels)


def _adapted(base, folder):
    """A base with the adapter of a folder, merged."""
    folder = adapter_folder.of(folder)
    if adapter_folder.opens_alone(folder):
        if not run_config.read(folder).init_from:
            raise errors.CheckpointError(f"no adapter in {folder}: it is a run that adapts no other")
        found = experiment.load(folder, base=base)
        return found.with_weights(linear.merge(found.weights), name=str(folder), step=found.step)
    dense = linear.merge(base.weights)
    found = adapters.load(folder, base_fingerprint=adapters.fingerprint(dense))
    return base.with_weights(found.merged(dense), name=str(folder), step=found.step)
