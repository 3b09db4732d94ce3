"""A run made of another run: what pruning, factorising, folding and converting leave behind.

Such a run has weights and no training of its own. `lwt.load`, ``eval.py --workdir`` and ``init_from`` take it like any
other, so that a chain of methods is a chain of workdirs.
"""

import json
import os
import re
import shutil

import jax

from lwt import errors, trees
from lwt.data.kinds import pairs, supervised
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.runs import checkpoint, run_config
from lwt.training import build

ORIGIN = "origin.json"


def write(found, workdir, *, weights=None, model=None, reparam=None, adapter=None, how=None):
    """Writes the run `workdir`, whose only checkpoint is step 0; returns it, opened.

    Args:
        found: an `experiment.Experiment`, the run that this one comes from.
        workdir: a folder that holds no run yet.
        weights: flat dict of the new model's weights, nodes or arrays; None for those of `found`. They are kept as
            arrays: what is quantized is dequantized, an adapter is merged.
        model: keys of ``config.model`` that change, such as ``{"hidden": 128}``.
        reparam: the section of a reparametrization in which the weights are kept, such as factors; None: as they are.
        adapter: its leaves, all trained ones; None for those that it starts with.
        how: what was done, JSON for ``origin.json``, beside the name of the run that it was done to.

    Raises:
        lwt.errors.ConfigError: `workdir` holds a run.
        lwt.errors.CheckpointError: the weights do not fit the model, or the leaves the reparametrization; names the
            first that differ.
    """
    changes = {"model": {**found.config.model.to_dict(), **(model or {})}, "reparam": reparam or {"name": "none"}}
    config = _begin(found, workdir, changes, trainable=(".*",), how=how)
    data = build.make_data(config, workdir, make=False)
    made = build.make_model(config, data.vocabulary, outputs=data.outputs)
    key = jax.random.key(0)
    arrays = linear.merge(found.weights if weights is None else weights)
    _check(workdir, "model", jax.eval_shape(lambda: build.init_weights(made, key)), arrays)
    part = compose.build(config.reparam)
    leaves = part.init(key, arrays) if adapter is None else adapter
    _check(workdir, "reparametrization", jax.eval_shape(part.init, key, arrays), leaves)
    stored = compose.stored(part, arrays)
    state = {**trees.with_prefix(stored, "base"), **trees.with_prefix(leaves, "adapter")}
    return _finish(found, workdir, config, state, base="")


def adapt(found, workdir, *, reparam, adapter, trained=None, how=None):
    """Writes the run `workdir` that adapts the run `found`, whose weights stay there; returns it, opened.

    Args:
        found: an `experiment.Experiment`.
        workdir: a folder that holds no run yet.
        reparam: the section of the adapter's reparametrization.
        adapter: its leaves; of constants the run has those that it starts with.
        trained: flat dict of weights of the model that take the place of those of `found`, such as a head's.
        how: as in `write`.

    Raises:
        lwt.errors.ConfigError: `workdir` holds a run; or see `compose.build`.
        lwt.errors.CheckpointError: the leaves do not fit the weights of `found`; names the first that differ.
    """
    arrays, trained = linear.merge(found.weights), trained or {}
    part = compose.build(reparam)
    _check(workdir, "reparametrization", jax.eval_shape(part.init, jax.random.key(0), arrays), adapter)
    _check(workdir, "model", arrays, {**arrays, **trained})
    changes = {"reparam": reparam, "init_from": found.workdir, "init_checkpoint": str(found.step)}
    trainable = ("adapter/.*", *(re.escape(f"base/{name}") for name in trained))
    config = _begin(found, workdir, changes, trainable=trainable, how=how)
    leaves = {name: adapter[name] for name, label in part.labels(adapter).items() if label != "constant"}
    state = {**trees.with_prefix(trained, "base"), **trees.with_prefix(leaves, "adapter")}
    return _finish(found, workdir, config, state, base=adapters.fingerprint(arrays))


def _begin(found, workdir, changes, *, trainable, how):
    """Writes all of the run but its checkpoint; returns its config, that of `found` with `changes`."""
    if checkpoint.Checkpoints(os.path.join(workdir, "checkpoints")).last_step() is not None:
        raise errors.ConfigError(f"{workdir} holds a run already; give another folder")
    config = found.config.copy_and_resolve_references()
    with config.unlocked():
        config.init_from, config.init_skip = "", ()
        for key, value in changes.items():  # sections as a whole
            config[key] = value
        config.optimizer.trainable = trainable
    run_config.keep(config, workdir)
    for name in (pairs.TOKENIZER, supervised.SPLITS, supervised.LABELS):
        if os.path.exists(os.path.join(found.workdir, name)):
            shutil.copyfile(os.path.join(found.workdir, name), os.path.join(workdir, name))
    with open(os.path.join(workdir, ORIGIN), "w") as file:
        json.dump({"run": found.workdir, "step": found.step, **(how or {})}, file, indent=2)
    return config


def _finish(found, workdir, config, trained, *, base):
    """Writes the checkpoint of step 0, with the fingerprint of a `base`; returns the run, opened."""
    identity = {**build.make_data(config, workdir, make=False).identity, "base": base}
    folder = os.path.join(workdir, "checkpoints")
    with checkpoint.Checkpoints(folder, select=config.select, mode=config.select_mode) as checkpoints:
        checkpoints.save(0, {"trainable": trained}, data_state={"identity": identity}, wait=True)
    return type(found)(workdir, "last", {})


def _check(workdir, what, wanted, given):
    difference = trees.differences(wanted, given)
    if difference:
        raise errors.CheckpointError(f"the weights for {workdir} are not those of its {what}: {difference}")
