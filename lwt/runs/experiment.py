"""Opens whatever holds a trained model, as an `Experiment` to use. There are five forms on disk:

    a run            the folder given to ``train.py --workdir``
    an adapter run   a run that names its base by folder and fingerprint, and stores the adapter alone
    an adapter       the folder ``adapter/`` of such a run alone; its base is another run or an opened experiment
    a derived run    what a method of ``lwt/compress`` or ``lwt/export`` wrote, a run at step 0
    a bundle         what ``lwt.export.bundle`` wrote, with weights as floats or as integers

`load` opens each of them.
"""

import copy
import functools
import json
import logging
import os
import time

import jax

from lwt import errors, trees, values
from lwt.layers import linear
from lwt.machine import devices
from lwt.reparam import compose
from lwt.runs import (
    adapter_folder,
    assembly,
    bases,
    bundle,
    calibration,
    eval_files,
    evaluation,
    hub,
    integer_file,
    predictor,
    run_config,
)
from lwt.runs.serving import adapter_stack

LOG = logging.getLogger(__name__)


def load(workdir, *, checkpoint="best", base="", adapters=None, capacity=0, decoding=None, precision=""):
    """Opens a run or a bundle; see `lwt.load`.

    Args:
        workdir: folder of the run, bundle or adapter.
        checkpoint: ``"best"``, ``"last"`` or a step; a bundle and an adapter have only one.
        base: folder of the run that this one adapts, or its `Experiment`; "": where `bases.candidates` finds it.
        adapters, capacity: of the stack, see `adapter_stack.AdapterStack`; None: without.
        decoding: settings of the task that replace the config's, such as ``{"beams": 4}``.
        precision: of the operands of products; "": the config's.
    """
    found = Experiment(workdir, checkpoint=checkpoint, base=base, decoding=decoding, precision=precision)
    if capacity and not adapters:
        raise errors.ConfigError(f"capacity={capacity} is room for adapters: give adapters as well")
    if adapters:
        options = {"capacity": capacity, "decoding": decoding, "precision": precision}
        found.adapters = adapter_stack.AdapterStack(found, adapters, **options)
    return found


def arrays_of(workdir, checkpoint):
    """The weights that another run starts from: those of `workdir`, all as arrays, quantized ones included."""
    return linear.merge(load(workdir, checkpoint=checkpoint).weights)


class Experiment(predictor.Predictor):
    """A trained model with all that it needs to be used.

    Attributes:
        workdir: its folder.
        config: the run's config; for a run trained by distillation, with the task itself in place of ``distill``.
        model: the linen module; ``model.apply({"params": trees.unflatten(weights)}, ...)``.
        task: the task, with the decoding settings.
        tokenizer: the run's own; None for images.
        weights: flat dict of float32 arrays, adapters merged. A run that quantizes or factorises its weights has nodes
            that hold the integers or factors; `linear.merge` makes arrays of all.
        data: the run's data, see `assembly.make_data`.
        labels: names of the classes, if the task has classes.
        step: optimizer steps of the checkpoint.
        calibration: the `calibration.Calibration` of its probabilities; None if none was fitted to this checkpoint.
        adapters: the `adapter_stack.AdapterStack` that answers in its place, if it was opened with one.
    """

    def __init__(self, workdir, *, checkpoint="best", base="", decoding=None, precision=""):
        workdir = self.workdir = hub.folder(workdir)
        self._base_print = ""
        self._opened = base if isinstance(base, Experiment) else None  # the base
        self._base = self._opened.workdir if self._opened else hub.folder(base)
        info = bundle.read_info(workdir) if bundle.is_bundle(workdir) else None  # first: it verifies every file
        self.config = run_config.read(workdir)
        if self.config.tasks:
            tasks = ", ".join(self.config.tasks)
            raise errors.ConfigError(f"{workdir} holds an adapter for each of {tasks}; open {workdir}/TASK/adapter")
        self.config.precision = precision or self.config.precision
        self.config.task = assembly.task_section(self.config.task)
        self.config.task.update(decoding or {})
        self._settings = decoding or {}
        self.data = assembly.make_data(self.config, self.workdir, make=False, base=self._base)
        self.tokenizer = self.data.tokenizer
        self.labels = self.data.labels.names if hasattr(self.data, "labels") else ()
        self.model = assembly.make_model(
            self.config, self.data.vocabulary, outputs=self.data.outputs, frame=self.data.frame
        )
        self.task = assembly.make_task(self.config)
        self._reparam = compose.build(self.config.reparam)
        if base and not self.config.init_from:
            LOG.warning("%s started from no other run: its weights do not need the base %s", workdir, base)
        if info and str(checkpoint) not in ("best", "last", str(info["step"])):
            raise errors.CheckpointError(
                f"{workdir} is a bundle of step {info['step']}; it has no checkpoint {checkpoint}"
            )
        self.weights, self.step = self._of_bundle(info) if info else self._of_checkpoint(checkpoint)
        self.calibration = calibration.read(self.workdir, step=self.step)

    def stored(self):
        """What the weights are made from, ``(trained, frozen)``: flat dicts ``base/...`` and ``adapter/...``."""
        trained, frozen, _ = self._restore(self.step)
        return trained, frozen

    def _of_checkpoint(self, which):
        """``(weights, step)`` of a checkpoint."""
        trained, frozen, step = self._restore(which)
        expand = jax.jit(lambda params: linear.merge_floats(assembly.expand(self._reparam, params, step=step)))
        return expand({**trained, **frozen}), step

    def _restore(self, which):
        """Checkpoint `which`, and the leaves that were never trained: ``(trained, frozen, step)``."""
        identity = self.data.identity
        state, saved, step = adapter_folder.restore(self.workdir, which, config=self.config, identity=identity)
        self._base_print = saved.get("identity", {}).get("base", "")
        make = functools.partial(assembly.initial_params, self.config, self.model, reparam=self._reparam)
        trainable, frozen = jax.eval_shape(make)
        used = trees.subtree(state, "average") or trees.subtree(state, "trainable")  # see `optimizer.ema`
        if frozen:  # what no step has touched follows from the base, or from the seed
            own = not trees.subtree(frozen, "base") and getattr(self._reparam, "follows_training", False)
            trained = trees.subtree(used, "base")
            frozen = make(base=trained if own else self.base(), trained=trained)[1]
        projection = f"{assembly.PROJECTION}/"
        found = {name: leaf for name, leaf in used.items() if name not in frozen}
        found, _ = trees.split(found, lambda name: not name.startswith(projection))
        difference = trees.differences(trainable, found)
        if difference:
            raise errors.CheckpointError(f"{self.workdir}: checkpoint {step} holds another model: {difference}")
        return found, frozen, step

    def _of_bundle(self, info):
        """``(weights, step)`` of a bundle, of floats or of integers."""
        path = os.path.join(self.workdir, bundle.WEIGHTS)
        weights = integer_file.load(path) if info["precision"] in bundle.INTEGERS else bundle.read_weights(self.workdir)
        wanted = jax.eval_shape(lambda: assembly.init_weights(self.model, jax.random.key(0)))
        difference = trees.differences(wanted, weights)
        if difference:
            raise errors.CheckpointError(f"{self.workdir}: {bundle.WEIGHTS} holds another model: {difference}")
        return weights, info["step"]

    def base(self):
        """The weights of the run that this one started from, as arrays; None if it started from scratch.

        Raises:
            lwt.errors.CheckpointError: that run is missing, or its weights differ from those in training.
        """
        if not self.config.init_from:
            return None

        def read(folder):
            if self._opened:
                return linear.merge(self._opened.weights)
            return arrays_of(folder, self.config.init_checkpoint)

        about = {"given": self._base, "fingerprint": self._base_print}
        return bases.weights(self.config.init_from, self.workdir, read=read, **about)

    @property
    def identity(self):
        """What a file of weights and this experiment must agree on."""
        return {
            "tokenizer": self.tokenizer.fingerprint if self.tokenizer else "",
            "task": self.config.task["name"],
            "labels": list(self.labels),
            "model": run_config.as_json(self.config)["model"],
        }

    def with_file(self, path):
        """This experiment with the weights of a file that ``lwt.export.quantize`` wrote, multiplied from its integers.

        Raises:
            lwt.errors.CheckpointError: the file is missing or damaged, or belongs to another model, task or tokenizer.
        """
        info = integer_file.read_info(path)
        wanted, found = trees.flatten(self.identity), trees.flatten(info if isinstance(info, dict) else {})
        for key in wanted:
            if key not in found:
                raise errors.CheckpointError(
                    f"{path} does not record its {key}: it must be a file of lwt.export.quantize"
                )
        for key in {**wanted, **{key: None for key in found if key.startswith("model/")}}:
            if found[key] != wanted.get(key):
                raise errors.CheckpointError(
                    f"{path} does not belong to the run {self.workdir}: its {key.replace('/', '.')} is "
                    f"{found[key]!r:.80} instead of {wanted.get(key)!r:.80}"
                )
        return self.with_weights(integer_file.load(path), name=os.path.basename(path), step=info["step"])

    def with_weights(self, weights, *, name, step):
        """This experiment with other weights, a flat dict of arrays and nodes.

        Args:
            weights: names and shapes have to be those of the model.
            name: what the files of evaluations call them.
            step: optimizer steps that led to them.
        """
        difference = trees.differences(self.weights, weights)
        if difference:
            raise errors.CheckpointError(f"{name} holds another model than {self.workdir}: {difference}")
        other = copy.copy(self)
        other.weights, other.step, other._settings = weights, step, {**self._settings, "weights": name}
        if step != self.step:
            other.calibration = None  # it holds for one checkpoint
        return other

    @functools.cached_property
    def _evaluator(self):
        mesh = devices.make_mesh({"data": -1})  # the devices at hand; the config's mesh is that of the training
        return evaluation.Evaluator(self.task, self.model, mesh)

    @property
    def test(self):
        """The name that `report` gives the run's test set."""
        return self.data.named("")

    def batches(self, name="", *, limit=0):
        """Evaluation batches, one record a row, of `limit` records (0: all); by default of the run's validation set."""
        return self.data.batches(self._records(name or self.data.named("validation"), limit))

    def evaluate(self, name="", *, limit=0):
        """``(figures, sources, outputs, references)`` of a set ``KIND:NAME@SPLIT``, by default the run's test set.

        Sources are raw texts; outputs are texts, predictions or None; references are texts or labels. `limit` records
        are drawn; 0: all.
        """
        found = self._records(name or self.data.test, limit)
        self.warn_of_cut(self.data.cut(found))
        figures, outputs = self._evaluator.figures(self.weights, self.data, evaluation=found)
        return figures, found.sources, outputs, found.references

    def _records(self, name, limit):
        values.text().require("data", name)
        values.whole(0).require("limit", limit)
        return self.data.evaluation(name, limit=limit)

    def report(self, *, split="", data=""):
        """Evaluates; writes the figures to ``eval/NAME.json`` and returns them, with what they were measured on.

        The best and worst translations go to ``eval/NAME.md``, or every label and prediction to ``eval/NAME.tsv``, and
        for classes the confusion matrix to ``eval/NAME.confusion.csv`` and ``.png``; see `class_report.of`.

        Args:
            split: another split of the run's test set; "validation" and "test" are those of the config.
            data: another data set, ``KIND:NAME@SPLIT``.
        """
        if split and data:
            raise errors.ConfigError(f"split={split!r} and data={data!r} exclude each other; give one of them")
        name = data or self.data.named(split)
        begin = time.perf_counter()
        figures, sources, outputs, references = self.evaluate(name)
        origin = {"weights": self._settings["weights"]} if "weights" in self._settings else {}
        figures = {"data": name, "records": len(sources), "checkpoint": self.step} | origin | figures
        figures["seconds"] = round(time.perf_counter() - begin, 2)
        if hasattr(self.task, "decoding"):
            figures["decoding"] = self.task.decoding()
        more, contents = eval_files.contents(self, sources, outputs=outputs, references=references)
        figures = eval_files.finite(figures | more)
        if jax.process_index() == 0:
            contents["json"] = json.dumps(figures, indent=2, ensure_ascii=False) + "\n"
            eval_files.write(self.workdir, eval_files.stem(name, self._settings), contents=contents)
        return figures
