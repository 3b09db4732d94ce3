"""A run as a thing in Python: train it, open it, evaluate it, predict with it."""

import copy
import functools
import json
import os
import re
import sys
import time

import jax

from lwt import errors, trees
from lwt.layers import linear
from lwt.machine import devices
from lwt.metrics import translation
from lwt.reparam import adapters, compose
from lwt.runs import bundle, checkpoint, evaluation, lock, run_config
from lwt.training import build, loop, teaching


def train(config, workdir):
    """Builds and trains the run of `config` in `workdir`, or goes on with it; returns the last evaluation's figures.

    Raises:
        lwt.errors.ConfigError: another process is training in `workdir`; or what `build.build` refuses.
    """
    with lock.held(workdir):
        base = arrays_of(config.init_from, config.init_checkpoint) if config.init_from else None
        return loop.train(build.build(config, workdir, base=base, teachers=teachers_of(config)))


def teachers_of(config):
    """The opened runs that the run of `config` is to learn from; none if it learns from its data alone."""
    if config.task.name != "distill":
        return []
    goal = build.make_goal(config, build.make_task(config))
    return [load(teacher, checkpoint=goal.checkpoint) for teacher in goal.teachers]


def load(workdir, *, checkpoint="best", decoding=None, weights=None, precision=""):
    """Opens the run in `workdir`, or a bundle; see `lwt.load`.

    Args:
        decoding: settings of the task to use instead of the config's, such as ``{"beams": 4}``.
        weights: of a bundle of integers, which `lwt/export/bundle.py` reads; None: those that are found.
        precision: of the operands of products; "": the config's.
    """
    return Experiment(workdir, checkpoint, decoding or {}, weights, precision)


def arrays_of(workdir, which):
    """What another run starts from: the weights of a run, all of them arrays, those that are quantized too."""
    return linear.merge(load(workdir, checkpoint=which).weights)


def file_stem(name, decoding):
    """The name of the files that an evaluation writes: the data set, and what was set on the decoding."""
    settings = [f"{key}={value}" for key, value in decoding.items()]
    return re.sub(r"[^\w.=@-]+", "_", " ".join([name, *settings]))


class Experiment:
    """A trained model with all that it needs to be used.

    Attributes:
        config: the run's config; of one that was distilled, with the task itself: the teacher has done its part.
        model: the linen module; ``model.apply({"params": trees.unflatten(weights)}, ...)``.
        task: the task, with the decoding settings.
        tokenizer: the run's own; None for images.
        weights: flat dict: float32 arrays, adapters merged; of a run that quantizes or factorises them, nodes that hold
            the integers or factors (and an adapter on top of these), from which they are multiplied. `linear.merge`
            makes arrays of all.
        data: the run's data, see `build.make_data`.
        labels: names of the classes, if the task has classes.
        step: optimizer steps of the checkpoint.
    """

    def __init__(self, workdir, which, decoding, weights=None, precision=""):
        self.workdir = str(workdir)
        self.config = run_config.read(workdir)
        self.config.precision = precision or self.config.precision
        self.config.task = build.task_section(self.config.task)
        self.config.task.update(decoding)
        self._settings = decoding
        self.data = build.make_data(self.config, self.workdir, make=False)
        self.tokenizer = self.data.tokenizer
        self.labels = self.data.labels.names if hasattr(self.data, "labels") else ()
        self.model = build.make_model(self.config, self.data.vocabulary, outputs=self.data.outputs)
        self.task = build.make_task(self.config)
        self._reparam = compose.build(self.config.reparam)
        self.weights, self.step = self._bundled(weights) if bundle.is_bundle(workdir) else self._expanded(which)

    def stored(self):
        """What the run stores, ``(trained, frozen)``: flat dicts ``base/...`` and ``adapter/...``, which the weights
        are made of. The base is frozen, but for those of its weights that were trained."""
        trained, frozen, _ = self._restore(self.step)
        return trained, frozen

    def _restore(self, which):
        """Checkpoint `which`, and what was never trained: ``(trained, frozen, step)``."""
        base = self.base()
        make = functools.partial(build.initial_params, self.config, self.model, self._reparam, base)
        trainable, frozen = jax.eval_shape(make) if base is None else make()
        if base is None and frozen:  # fresh weights that no step has touched: they follow from the seed
            frozen = make()[1]
        identity = {**self.data.identity, "base": adapters.fingerprint(base) if base else ""}
        with checkpoint.Checkpoints(
            os.path.join(self.workdir, "checkpoints"), select=self.config.select, mode=self.config.select_mode
        ) as checkpoints:
            same = functools.partial(loop.check_identity, identity=identity, where=checkpoints.folder)
            state, _, step = checkpoints.restore(which, check=same)
        helped = f"{teaching.LEARNED}/"  # what a teacher made the training learn is no part of the model
        found, _ = trees.split(trees.subtree(state, "trainable"), lambda name: not name.startswith(helped))
        difference = trees.differences(trainable, found)
        if difference:
            raise errors.CheckpointError(f"{self.workdir}: checkpoint {step} holds another model: {difference}")
        return found, frozen, step

    def _expanded(self, which):
        """The weights that the run's model multiplies with, and their step."""
        trained, frozen, step = self._restore(which)
        expand = jax.jit(lambda params: linear.merge_floats(build.expand(self._reparam, params, step)))
        return expand({**trained, **frozen}), step

    def _bundled(self, weights):
        """The weights of a bundle, and their step."""
        found = weights or bundle.read_weights(self.workdir)
        wanted = jax.eval_shape(lambda: build.init_weights(self.model, jax.random.key(0)))
        difference = trees.differences(wanted, found)
        if difference:
            raise errors.CheckpointError(f"{self.workdir}: {bundle.WEIGHTS} holds another model: {difference}")
        return found, bundle.read_info(self.workdir)["step"]

    def base(self):
        """The weights of the run that this one started from, all of them arrays; None if it started from none.

        Raises:
            lwt.errors.CheckpointError: that run is not there.
        """
        given = self.config.init_from
        if not given:
            return None
        beside = os.path.join(os.path.dirname(os.path.abspath(self.workdir)), os.path.basename(given))
        for path in (given, beside):
            if os.path.isdir(path):
                return arrays_of(path, self.config.init_checkpoint)
        raise errors.CheckpointError(
            f"{self.workdir} adapts the run {given}, which is not there, nor at {beside}; put it back at one of these"
        )

    def with_weights(self, weights, *, name, step):
        """The same run with other weights, such as those of an artefact.

        Args:
            weights: flat dict of arrays and nodes.
            name: what the evaluations' files call them.
            step: optimizer steps behind them.

        Raises:
            lwt.errors.CheckpointError: names or shapes are not those of the model.
        """
        difference = trees.differences(self.weights, weights)
        if difference:
            raise errors.CheckpointError(f"{name} holds another model than {self.workdir}: {difference}")
        other = copy.copy(self)
        other.weights, other.step, other._settings = weights, step, {**self._settings, "weights": name}
        return other

    @functools.cached_property
    def _evaluator(self):
        mesh = devices.make_mesh({"data": -1})  # whatever devices are here; the config's mesh is that of the training
        devices.check_rows(mesh, self.config.data.eval_batch, what="data.eval_batch")
        return evaluation.Evaluator(self.task, self.model, mesh)

    @property
    def test(self):
        """What `report` calls the run's test set."""
        return self.data.named("")

    def batches(self, name="", *, limit=0):
        """Evaluation batches, one record a row, of a data set ``KIND:NAME@SPLIT``, or of the run's validation set.

        Args:
            limit: so many of its records; 0: all.
        """
        return self.data.batches(self.data.evaluation(name or self.data.named("validation"), limit=limit))

    def evaluate(self, name="", *, limit=0):
        """Figures on a data set ``KIND:NAME@SPLIT``, or on the run's test set; with what was said of each record.

        Args:
            limit: so many of its records; 0: all.

        Returns:
            ``(figures, sources, outputs, references)``: raw texts; texts, predictions or None; texts or labels.
        """
        found = self.data.evaluation(name or self.data.test, limit=limit)
        figures, outputs = self._evaluator.figures(self.weights, self.data, found)
        return figures, found.sources, outputs, found.references

    def report(self, *, split="", data=""):
        """Evaluates; writes ``eval/NAME.json`` (figures, for programs) and a file of outputs to read, if there are any:
        ``eval/NAME.md`` (best and worst translations) or ``eval/NAME.tsv`` (every label and prediction).

        Args:
            split: another split of the run's test set; "validation" and "test" are those of the config.
            data: another data set, ``KIND:NAME@SPLIT``.

        Returns:
            The figures, with what they were measured on.
        """
        name = data or self.data.named(split)
        begin = time.perf_counter()
        figures, sources, outputs, references = self.evaluate(name)
        origin = {"weights": self._settings["weights"]} if "weights" in self._settings else {}
        figures = {"data": name, "records": len(sources), "checkpoint": self.step} | origin | figures
        figures["seconds"] = round(time.perf_counter() - begin, 2)
        if hasattr(self.task, "decoding"):
            figures["decoding"] = self.task.decoding()
        if jax.process_index() == 0:
            stem = os.path.join(self.workdir, "eval", file_stem(name, self._settings))
            os.makedirs(os.path.dirname(stem), exist_ok=True)
            with open(f"{stem}.json", "w") as file:
                json.dump(figures, file, indent=2)
            if hasattr(self.task, "generate"):
                with open(f"{stem}.md", "w") as file:
                    file.write(
                        translation.extremes(sources, outputs, references=references, lowercase=self.task.lowercase)
                    )
            elif outputs is not None:
                answers, wanted = self.data.answers(outputs), self.data.answers(references)
                with open(f"{stem}.tsv", "w") as file:
                    file.write("label\tprediction\ttext\n")
                    for label, answer, source in zip(wanted, answers, sources, strict=True):
                        file.write("\t".join([label, answer, " ".join(source.split())]) + "\n")
        return figures

    def predict(self, texts):
        """One result a text (or path of an image), in order: what is decoded, or the class or number, as a text.

        Raises:
            lwt.errors.ConfigError: the run's task gives no answers (pre-training).
        """
        if not hasattr(self.task, "generate") and not hasattr(self.task, "predict"):
            raise errors.ConfigError(f"{self.workdir}: task.name={self.config.task.name!r} gives no answers to texts")
        found = self.data.from_texts(list(texts))
        outputs = self._evaluator.outputs(self.weights, self.data, found)
        return outputs if hasattr(self.task, "generate") else self.data.answers(outputs)

    def predict_file(self, path, *, output=sys.stdout):
        """Answers the lines of a UTF-8 file (or of standard input, ``-``), one line each, in order.

        Raises:
            lwt.errors.DataError: the file cannot be read, or a line is not UTF-8.
        """
        try:
            with open(0 if path == "-" else path, "rb") as file:
                lines = [line.rstrip(b"\r\n") for line in file]
        except OSError as error:
            raise errors.DataError(
                f"--predict={path} cannot be read: {error.strerror}; give a text file, or - for standard input"
            ) from error
        texts = []
        for number, line in enumerate(lines, 1):
            try:
                texts.append(line.decode())
            except UnicodeDecodeError as error:
                raise errors.DataError(
                    f"{path}:{number}: not UTF-8 ({error.reason}); one text a line is expected, or one path"
                ) from error
        for text in self.predict(texts):
            print(text, file=output, flush=True)
