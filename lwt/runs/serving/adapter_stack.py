"""Many adapters of one base in one batch: each text is answered by its own adapter, in one compiled program.

The leaves of all adapters lie in one stack, and each record takes those of its own. `jax.vmap` over records keeps the
products with the base in one piece, since all records share them; only the factors are multiplied record by record.
"""

import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from lwt import errors, trees
from lwt.layers import linear
from lwt.reparam import adapters as artefacts
from lwt.reparam import compose
from lwt.runs import adapter_folder, assembly, experiment

NEVER = -1e9  # the logit of a class that an adapter does not have
CLASSIFIER = "head/classifier/(kernel|bias)"  # whose last axis is the classes
SAME = ("kind", "clean", "row_length", "cut", "eval_batch")  # keys of config.data that all adapters share


class AdapterStack:
    """One base and its adapters: classifiers of texts, whose classes may differ.

    Adapters of one section stay as they are, whatever the method. Others become plain LoRA of one rank and the union of
    their targets (`adapters.low_rank`). Heads of fewer classes are filled up with classes that are never chosen.

    Args:
        base: the `experiment.Experiment` of the base, or its folder.
        folders: ``{name: folder}`` of adapters, or of runs that hold one.
        capacity: the number of adapters that the stack has room for, so that `add` compiles nothing; 0: those of
            `folders`.

    Attributes:
        names: of the adapters, in the order of the stack.
        labels: ``{name: its classes}``.

    Raises:
        lwt.errors.ConfigError: the adapters have different models or inputs, or are no classifiers; or their methods
            differ, and one is not of low rank.
        lwt.errors.CheckpointError: see `experiment.load`.
    """

    def __init__(self, base, folders, *, capacity=0):
        self._opened = base if isinstance(base, experiment.Experiment) else experiment.load(base)
        self._base = linear.merge(self._opened.weights)
        self._fingerprint = artefacts.fingerprint(self._base)
        found = {name: self._open(name, folder) for name, folder in folders.items()}
        if not found:
            raise errors.ConfigError("a stack needs at least one adapter")
        runs = [run for run, _ in found.values()]
        self._run, self.names, self.labels = runs[0], (), {}
        self._classes = max(len(run.labels) for run in runs)
        self._form, self._targets = _form([adapter for _, adapter in found.values()], self._base)
        self._whole = sorted({name for _, adapter in found.values() for name in adapter.whole})
        self._capacity = capacity or len(found)
        self._stack = None
        for name, (run, adapter) in found.items():
            self._put(name, run, adapter)
        self._logits = jax.jit(self._apply)

    def add(self, name, folder):
        """Adds an adapter whose rank, targets and classes fit into the stack.

        Raises:
            lwt.errors.ConfigError: there is no room, or it does not fit; says what differs.
        """
        self._put(name, *self._open(name, folder))

    def predict(self, texts, *, adapters):
        """The class of each text, as text, from the adapter that `adapters` names for it."""
        rows = self.predict_proba(texts, adapters=adapters)
        return [max(row, key=row.get) for row in rows]

    def predict_proba(self, texts, *, adapters):
        """``{class: probability}`` for each text; see `predict`."""
        found = self.outputs(texts, adapters=adapters)
        classes = [self.labels[name] for name in adapters]
        return [
            dict(zip(names, special.softmax(row[: len(names)]).tolist(), strict=True))
            for names, row in zip(classes, found, strict=True)
        ]

    def outputs(self, texts, *, adapters):
        """The logits `[n c]` of all texts, with c of the adapter that has the most classes.

        Args:
            texts: a list of n texts.
            adapters: n names.

        Raises:
            lwt.errors.ConfigError: there is no such adapter, or not one for each text.
        """
        texts, adapters = list(texts), list(adapters)
        if len(adapters) != len(texts):
            raise errors.ConfigError(f"{len(texts)} texts and {len(adapters)} names of adapters; each text needs one")
        for name in adapters:
            if name not in self.labels:
                raise errors.ConfigError(f"adapter {name!r}: {errors.suggest(name, self.names)}")
        index = np.array([self.names.index(name) for name in adapters], np.int32)
        found = np.zeros((len(texts), self._classes), np.float32)
        if not texts:
            return found
        data = self._run.data
        for batch in data.batches(data.from_texts(texts)):
            examples = batch["example"]
            own = index[np.maximum(examples, 0)]
            logits = np.asarray(self._logits(self._stack, self._base, own, batch))
            found[examples[examples >= 0]] = logits[examples >= 0]
        return found

    def _apply(self, stack, base, index, batch):
        """The logits `[b c]` of a batch whose record i belongs to the adapter `index[i]`."""
        model = assembly.make_model(self._run.config, self._run.data.vocabulary, outputs=self._classes)

        def one(own, record):
            leaves, whole = own
            weights = self._form.expand({**base, **whole}, leaves, 0)
            apply = functools.partial(model.apply, {"params": trees.unflatten(weights)})
            return self._run.task.predict(apply, {name: x[None] for name, x in record.items()})[0]

        return jax.vmap(one)(jax.tree.map(lambda x: x[index], stack), batch)

    def _open(self, name, folder):
        """The run of an adapter and its `adapters.Adapter`, checked."""
        folder = adapter_folder.of(folder)
        run = experiment.load(folder, base=self._opened)
        if not run.labels or not hasattr(run.task, "probabilities") or run.config.data.kind != "labelled":
            raise errors.ConfigError(f"adapter {name!r}: {folder} is no classifier of texts")
        return run, artefacts.load(folder, base_fingerprint=self._fingerprint)

    def _put(self, name, run, adapter):
        """Checks an adapter against those in the stack, and puts it at the next place."""
        first, where = self._run, f"adapter {name!r} ({run.workdir})"
        if len(self.names) == self._capacity:
            raise errors.ConfigError(f"{where}: the stack has room for {self._capacity}; give a larger capacity")
        if name in self.names:
            raise errors.ConfigError(f"{where}: another adapter has this name")
        for key in SAME:
            if run.config.data[key] != first.config.data[key]:
                raise errors.ConfigError(
                    f"{where} has data.{key}={run.config.data[key]}, and {first.workdir} {first.config.data[key]}"
                )
        if run.identity["model"] != first.identity["model"] or len(run.data.fields) != len(first.data.fields):
            raise errors.ConfigError(f"{where} has another model or other inputs than {first.workdir}")
        row = self._leaves(adapter, where), self._heads(adapter)
        if self._stack is None:
            self._base = {n: w for n, w in self._base.items() if n not in adapter.dropped}
            self._stack = jax.tree.map(lambda x: jnp.zeros((self._capacity, *x.shape), x.dtype), row)
        shapes = [jax.tree.map(lambda x: x.shape, tree) for tree in (row, jax.tree.map(lambda x: x[0], self._stack))]
        if shapes[0] != shapes[1]:
            raise errors.ConfigError(f"{where} has other ranks, targets, whole weights or more classes than the stack")
        self._stack = jax.tree.map(lambda stack, x: stack.at[len(self.names)].set(x), self._stack, row)
        self.names, self.labels = (*self.names, name), {**self.labels, name: run.labels}

    def _leaves(self, adapter, where):
        """The leaves of an adapter in the form of the stack."""
        if self._targets is None:
            if compose.build(adapter.config) != self._form:
                raise errors.ConfigError(f"{where} has another section reparam than the adapters of the stack")
            return adapter.leaves
        own = artefacts.low_rank(adapter, self._base).leaves if adapter.leaves else {}
        rank, leaves = self._form.rank, artefacts.pad_rank(own, self._form.rank)
        for target in self._targets:
            n_in, n_out = self._base[target].shape
            leaves.setdefault(f"{target}/a", jnp.zeros((n_in, rank)))
            leaves.setdefault(f"{target}/b", jnp.zeros((rank, n_out)))
        return leaves

    def _heads(self, adapter):
        """The whole weights of an adapter, those of the base where it has none; heads with all classes of the stack."""
        onto, whole = adapter.onto(self._base), {}
        for name in self._whole:
            w = jnp.asarray(onto[name])
            missing = self._classes - w.shape[-1]
            if re.fullmatch(CLASSIFIER, name) and missing > 0:
                fill = NEVER if w.ndim == 1 else 0.0
                w = jnp.pad(w, [(0, 0)] * (w.ndim - 1) + [(0, missing)], constant_values=fill)
            whole[name] = w
        return whole


def _form(found, base):
    """The reparametrization of the stack, and its targets; None where the adapters have one section and stay as is."""
    ramps = any("singlora" in json.dumps(adapter.config) for adapter in found)  # which depends on the step
    if len({json.dumps(adapter.config, sort_keys=True) for adapter in found}) == 1 and not ramps:
        return found[0].reparam, None
    low = [artefacts.low_rank(adapter, base).leaves for adapter in found if adapter.leaves]
    targets = sorted({leaf.removesuffix("/a") for leaves in low for leaf in leaves if leaf.endswith("/a")})
    rank = max(leaf.shape[1] for leaves in low for name, leaf in leaves.items() if name.endswith("/a"))
    config = {"name": "lora", "rank": rank, "scaling": "one", "targets": "|".join(map(re.escape, targets))}
    return compose.build(config), targets
