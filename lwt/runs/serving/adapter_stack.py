"""Many adapters of one base in one batch: each text is answered by its own adapter, in one compiled program.

The leaves of all adapters lie in one stack, and each record takes those of its own. `jax.vmap` over records keeps the
products with the base in one piece, since all records share them; only the factors are multiplied record by record.
"""

import copy
import re

import jax
import jax.numpy as jnp
import numpy as np

from lwt import errors, values
from lwt.layers import linear
from lwt.machine import devices
from lwt.reparam import adapters as artefacts
from lwt.runs import adapter_folder, assembly, calibration, checkpoint, evaluation, run_config
from lwt.runs.serving import stack_form

NEVER = -1e9  # the logit of a class that an adapter does not have
CLASSIFIER = "head/classifier/(kernel|bias)"  # whose last axis is the classes
SAME = ("kind", "clean", "row_length", "cut", "max_tokens")  # keys of config.data that all adapters share


class AdapterStack:
    """One base and its adapters for one task, such as classifiers whose classes differ, or translators.

    Adapters with one section ``reparam`` keep their leaves, whatever the method. Of several sections, those of low rank
    become plain LoRA of one rank, and those of other methods are stacked by section; an adapter has the start of the
    sections that it lacks, which changes nothing. Heads of fewer classes are filled up with classes that are never
    chosen.

    Args:
        base: the `experiment.Experiment` of the base.
        folders: ``{name: folder}`` of adapters, or of runs that hold one.
        capacity: the number of adapters that the stack has room for, so that `add` compiles nothing; 0: those of
            `folders`.
        decoding, precision: see `experiment.load`.

    Attributes:
        names: of the adapters, in the order of the stack.
        labels: ``{name: its classes}``.

    Raises:
        lwt.errors.ConfigError: the adapters have different models, tasks or inputs; or the start of a method among
            several is not the identity for all weights.
        lwt.errors.CheckpointError: see `experiment.load`.
    """

    def __init__(self, base, folders, *, capacity=0, decoding=None, precision=""):
        values.whole(0).require("capacity", capacity)
        self._opened, self._base = base, linear.merge(base.weights)
        self._given = {"decoding": decoding or {}, "precision": precision}
        self._fingerprint = artefacts.fingerprint(self._base)
        found = [self._open(name, folder) for name, folder in folders.items()]
        if not found:
            raise errors.ConfigError("adapters is empty: a stack needs at least one")
        self._members, self._first = {}, found[0]
        self._classes = max(member.data.outputs for member in found)
        self._form = stack_form.Form([member.adapter for member in found], self._base)
        self._whole = sorted({name for member in found for name in member.adapter.whole})
        self._capacity = capacity or len(found)
        self._stack = None
        for member in found:
            self._put(member)
        data = self._first.data
        model = assembly.make_model(self._first.config, data.vocabulary, outputs=self._classes, frame=data.frame)
        self._evaluator = _Evaluator(self._first.task, model, devices.make_mesh({"data": -1}), form=self._form)

    @property
    def names(self):
        return tuple(self._members)

    @property
    def labels(self):
        return {name: member.labels for name, member in self._members.items()}

    def add(self, name, folder):
        """Adds an adapter whose method, rank, targets and classes fit into the stack.

        Raises:
            lwt.errors.ConfigError: there is no room, or it does not fit; says what differs.
        """
        self._put(self._open(name, folder))

    def predict(self, texts, *, adapters):
        """The answer to each text, as text, from the adapter that `adapters` names for it."""
        return self._answers(texts, adapters, lambda member, outputs: member.experiment.answers(outputs))

    def predict_proba(self, texts, *, adapters):
        """``{class: probability}`` for each text; see `predict`.

        Raises:
            lwt.errors.ConfigError: the task gives no probabilities.
        """
        if not hasattr(self._first.task, "probabilities"):
            name = self._first.config.task.name
            raise errors.ConfigError(f"{self._first.workdir}: task.name={name!r} gives no probabilities")

        def named(member, outputs):
            return [
                dict(zip(member.labels, row.tolist(), strict=True)) for row in member.experiment.probabilities(outputs)
            ]

        return self._answers(texts, adapters, named)

    def outputs(self, texts, *, adapters):
        """The raw outputs for all texts, in order: decoded texts, numbers `[n]`, or logits `[n c]`.

        Args:
            texts: a list of n texts.
            adapters: n names. Logits have a column for each class of the adapter with the most; an adapter never
                chooses a column beyond its own classes.

        Raises:
            lwt.errors.ConfigError: there is no such adapter, or not one for each text.
        """
        texts, adapters = list(texts), list(adapters)
        if len(adapters) != len(texts):
            raise errors.ConfigError(f"{len(texts)} texts and {len(adapters)} names of adapters; each text needs one")
        for name in adapters:
            if name not in self._members:
                raise errors.ConfigError(f"adapter {name!r}: {errors.suggest(name, self._members)}")
        places = {name: i for i, name in enumerate(self._members)}
        own = np.array([places[name] for name in adapters], np.int32)
        found = self._first.data.from_texts(texts)
        if not texts:
            return [] if hasattr(self._first.task, "generate") else np.zeros((0, self._classes), np.float32)
        self._first.experiment.warn_of_cut(self._first.data.cut(found))
        weights = self._stack, self._base
        return self._evaluator.outputs(weights, self._first.data, evaluation=found, fields={"adapter": own})

    def _answers(self, texts, adapters, answer):
        """``answer(member, outputs)`` for the texts of each adapter, in the order of the texts."""
        adapters = list(adapters)
        outputs, answers = self.outputs(texts, adapters=adapters), [None] * len(adapters)
        for name in dict.fromkeys(adapters):
            places, member = [i for i, own in enumerate(adapters) if own == name], self._members[name]
            own = [outputs[i] for i in places]
            if isinstance(outputs, np.ndarray):
                own = outputs[places][:, : member.data.outputs] if outputs.ndim == 2 else outputs[places]
            for place, found in zip(places, answer(member, own), strict=True):
                answers[place] = found
        return answers

    def _open(self, name, folder):
        """The `_Member` of an adapter."""
        member = _Member(name, adapter_folder.of(folder), self._opened, **self._given)
        member.read(self._fingerprint)
        return member

    def _put(self, member):
        """Checks an adapter against those in the stack, and puts it at the next place."""
        first, where = self._first, f"adapter {member.name!r} ({member.workdir})"
        if len(self._members) == self._capacity:
            raise errors.ConfigError(f"{where}: the stack has room for {self._capacity}; give a larger capacity")
        if member.name in self._members:
            raise errors.ConfigError(f"{where}: another adapter has this name")
        for key, value in member.shared().items():
            if value != first.shared()[key]:
                raise errors.ConfigError(f"{where} has {key}={value}, and {first.workdir} {first.shared()[key]}")
        row = self._form.leaves(member.adapter, self._base, where=where), self._heads(member.adapter)
        if self._stack is None:
            self._base = {n: w for n, w in self._base.items() if n not in member.adapter.dropped}
            self._stack = jax.tree.map(lambda x: jnp.zeros((self._capacity, *x.shape), x.dtype), row)
        shapes = [jax.tree.map(lambda x: x.shape, tree) for tree in (row, jax.tree.map(lambda x: x[0], self._stack))]
        if shapes[0] != shapes[1]:
            raise errors.ConfigError(f"{where} has other ranks, targets, whole weights or more classes than the stack")
        self._stack = jax.tree.map(lambda stack, x: stack.at[len(self._members)].set(x), self._stack, row)
        self._members[member.name] = member

    def _heads(self, adapter):
        """The whole weights of an adapter, those of the base where it has none; heads with all classes of the stack."""
        onto, whole = adapter.onto(self._base), {}
        for name in self._whole:
            whole[name] = pad_classes(name, jnp.asarray(onto[name]), classes=self._classes)
        return whole


def pad_classes(name, w, *, classes):
    """The weight `name`: a classifier's `[... c]` with further classes, which are never chosen; any other as it is."""
    missing = classes - w.shape[-1] if re.fullmatch(CLASSIFIER, name) else 0
    if missing <= 0:
        return w
    return jnp.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, missing)], constant_values=NEVER if w.ndim == 1 else 0.0)


class _Member:
    """An adapter in a stack: its leaves, and what it reads texts and gives answers with."""

    def __init__(self, name, folder, base, *, decoding, precision):
        self.name, self.workdir, self.config = name, folder, run_config.read(folder)
        self.config.precision = precision or self.config.precision
        self.config.task = assembly.task_section(self.config.task)
        self.config.task.update(decoding)
        self.data = assembly.make_data(self.config, folder, make=False, base=base.workdir)
        self.task = assembly.make_task(self.config)
        self.labels = self.data.labels.names if hasattr(self.data, "labels") else ()
        self.experiment = copy.copy(base)  # for its answers; no weights are read
        self.experiment.data, self.experiment.task, self.experiment.calibration = self.data, self.task, None

    def read(self, fingerprint):
        """Reads the leaves of an adapter that gives answers, on the base with this fingerprint."""
        if not hasattr(self.task, "generate") and not hasattr(self.task, "predict"):
            raise errors.ConfigError(
                f"adapter {self.name!r} ({self.workdir}): task.name={self.config.task.name!r} gives no answers to texts"
            )
        self.adapter = artefacts.load(self.workdir, base_fingerprint=fingerprint)
        saved = {"identity": self.adapter.data}
        checkpoint.check_identity(saved, identity=self.data.identity, where=self.workdir)
        self.experiment.calibration = calibration.read(self.workdir, step=self.adapter.step)

    def shared(self):
        """``{key: value}`` of what all adapters of a stack have in common."""
        config = run_config.as_json(self.config)
        found = {f"data.{key}": config["data"][key] for key in SAME}
        found |= {key: config[key] for key in ("model", "task", "precision")}
        return found | {"the number of texts in a record": len(self.data.input_fields)}


class _Evaluator(evaluation.Evaluator):
    """For a model with the weights ``(stack, base)``, and batches with the place ``adapter`` `[b]` of each row."""

    alike = False

    def __init__(self, task, model, mesh, *, form):
        super().__init__(task, model, mesh)
        self._form = form

    def apply(self, weights, batch):
        """See `evaluation.Evaluator`: the model, applied to each row with its own weights."""
        stack, base = weights
        own = jax.tree.map(lambda x: x[batch["adapter"]], stack)
        rows = len(batch["adapter"])

        def apply(*args, **options):
            given, tree = jax.tree.flatten((args, options))
            arrays = {i: x.reshape(rows, -1, *x.shape[1:]) for i, x in enumerate(given) if getattr(x, "ndim", 0)}

            def one(own, arrays):
                leaves, whole = own
                adapted = super(_Evaluator, self).apply(self._form.expand({**base, **whole}, leaves, 0), None)
                args, options = tree.unflatten([arrays.get(i, x) for i, x in enumerate(given)])
                return adapted(*args, **options)

            shapes = jax.eval_shape(lambda *all_: one(*jax.tree.map(lambda x: x[0], all_)), own, arrays)
            axes = jax.tree.map(lambda shape: 0 if shape.ndim else None, shapes)  # scalars are shared by all rows
            found = jax.vmap(one, out_axes=axes)(own, arrays)
            return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]) if x.ndim else x, found)

        return apply
