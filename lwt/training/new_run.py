"""Writes a run made from another run, by pruning, factorising, folding or converting its weights.

Every program treats such a run like any other, so methods chain by their run folders.
"""

import os
import re

import jax

from lwt import errors, files, trees
from lwt.data import labels
from lwt.data.kinds import common
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.runs import assembly, checkpoint, experiment, run_config

ORIGIN = "origin.json"


def write(source, workdir, *, weights=None, model=None, reparam=None, adapter=None, how=None):
    """Writes the run `workdir`, whose only checkpoint is step 0; returns its `experiment.Experiment`.

    Args:
        source: the experiment that the new run is made from.
        workdir: a folder that holds no run yet.
        weights: flat dict of the new model's weights, nodes or arrays; None for those of `source`. They are merged.
        model: keys of ``config.model`` that change, such as ``{"hidden": 128}``.
        reparam: the section of the reparametrization that stores the weights, such as factors; None: as they are.
        adapter: all trained leaves of that reparametrization; None for its initial ones.
        how: what was done, JSON for ``origin.json``, beside the name of the source.

    Raises:
        lwt.errors.ConfigError: `workdir` already holds a run.
        lwt.errors.CheckpointError: the weights do not fit the model, or the leaves the reparametrization.
    """
    changes = {"model": {**source.config.model.to_dict(), **(model or {})}, "reparam": reparam or {"name": "none"}}
    config = _config(source, workdir, changes, trainable=(".*",))
    data = assembly.make_data(config, source.workdir, make=False)
    module = assembly.make_model(config, data.vocabulary, outputs=data.outputs, frame=data.frame)
    key = jax.random.key(0)
    arrays = linear.merge(source.weights if weights is None else weights)
    _check(workdir, "model", jax.eval_shape(lambda: assembly.init_weights(module, key)), arrays)
    part = compose.build(config.reparam)
    leaves = part.init(key, arrays) if adapter is None else adapter
    _check(workdir, "reparametrization", jax.eval_shape(part.init, key, arrays), leaves)
    stored = compose.stored(part, arrays)
    trained = {**trees.with_prefix(stored, "base"), **trees.with_prefix(leaves, "adapter")}
    return _write(source, workdir, config, trained=trained, base="", how=how)


def adapt(source, workdir, *, reparam, adapter, trained=None, classes=(), sections=None, how=None):
    """Writes the run `workdir` that adapts the run `source` and does not copy its weights; returns its experiment.

    Args and errors are as in `write`, except:
        reparam: the section of the adapter's reparametrization.
        adapter: its leaves; constant ones are not stored, they follow from the seed.
        trained: flat dict of weights of the model that replace those of `source`, such as a head's.
        classes: names of the classes, if they differ from those of `source`; () for the same.
        sections: sections of the config that differ from those of `source`.
    """
    arrays, trained = linear.merge(source.weights), trained or {}
    part = compose.build(reparam)
    _check(workdir, "reparametrization", jax.eval_shape(part.init, jax.random.key(0), arrays), adapter)
    new = [name for name, w in trained.items() if name not in arrays or w.shape != arrays[name].shape]
    changes = {**(sections or {}), "reparam": reparam, "init_from": source.workdir, "init_checkpoint": str(source.step)}
    changes["init_skip"] = tuple(re.escape(name) for name in new)
    trainable = (*(("adapter/.*",) if adapter else ()), *(re.escape(f"base/{name}") for name in trained))
    config = _config(source, workdir, changes, trainable=trainable)
    module = assembly.make_model(
        config, source.data.vocabulary, outputs=len(classes) or source.data.outputs, frame=source.data.frame
    )
    wanted = jax.eval_shape(lambda: assembly.init_weights(module, jax.random.key(0)))
    _check(workdir, "model", wanted, {**arrays, **trained})
    leaves = {name: adapter[name] for name, label in part.labels(adapter).items() if label != "constant"}
    stored = {**trees.with_prefix(trained, "base"), **trees.with_prefix(leaves, "adapter")}
    about = {"base": adapters.fingerprint(arrays), "how": how, "classes": classes}
    return _write(source, workdir, config, trained=stored, **about)


def _config(source, workdir, changes, *, trainable):
    """The new run's config, that of `source` with `changes`; refuses a workdir with a run."""
    if checkpoint.of_run(workdir).last_step() is not None:
        raise errors.ConfigError(f"{workdir} already holds a run; give another folder")
    config = source.config.copy_and_resolve_references()
    with config.unlocked():
        config.init_from, config.init_skip = "", ()
        for key, value in changes.items():  # whole sections
            config[key] = value
        config.optimizer.trainable = trainable
    return config


def _write(source, workdir, config, *, trained, base, how, classes=()):
    """Writes the run's files and its checkpoint of step 0, with the fingerprint of a `base`; returns the experiment."""
    run_config.keep(config, workdir)
    for name in common.FILES:
        if os.path.exists(os.path.join(source.workdir, name)):
            files.copy(os.path.join(source.workdir, name), os.path.join(workdir, name))
    if classes:
        path = os.path.join(workdir, labels.FILE)
        kept = files.read_json(path) if os.path.exists(path) else {"fields": list(config.data.fields)}
        files.write_json(path, {**kept, "names": list(classes)}, indent=None, checked=True)
    origin = {"run": source.workdir, "step": source.step, **(how or {})}
    files.write_json(os.path.join(workdir, ORIGIN), origin, checked=True)
    identity = {**assembly.make_data(config, workdir, make=False).identity, "base": base}
    checkpoint.save_initial(workdir, config, trained, identity=identity)
    return experiment.load(workdir, checkpoint="last")


def _check(workdir, what, wanted, given):
    difference = trees.differences(wanted, given)
    if difference:
        raise errors.CheckpointError(f"the weights for {workdir} are not those of its {what}: {difference}")
