"""A run made of another run: what pruning, factorising, folding and converting leave behind.

Such a run has weights and no training of its own. `lwt.load`, ``eval.py --workdir`` and ``init_from`` take it like any
other, so that a chain of methods is a chain of workdirs.
"""

import json
import os
import shutil

import jax

from lwt import errors, trees
from lwt.data import pairs, supervised
from lwt.layers import linear
from lwt.reparam import compose
from lwt.training import build, checkpoint, run_config

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
    if checkpoint.Checkpoints(os.path.join(workdir, "checkpoints")).last_step() is not None:
        raise errors.ConfigError(f"{workdir} holds a run already; give another folder")
    config = found.config.copy_and_resolve_references()
    with config.unlocked():
        config.model = {**config.model.to_dict(), **(model or {})}
        config.reparam = reparam or {"name": "none"}
        config.init_from, config.init_skip = "", ()
        config.optimizer.trainable = (".*",)
    run_config.keep(config, workdir)
    for name in (pairs.TOKENIZER, supervised.SPLITS, supervised.LABELS):
        if os.path.exists(os.path.join(found.workdir, name)):
            shutil.copyfile(os.path.join(found.workdir, name), os.path.join(workdir, name))
    data = build.make_data(config, workdir, make=False)
    made = build.make_model(config, data.vocabulary, outputs=data.outputs)
    key = jax.random.key(0)
    arrays = linear.merge(found.weights if weights is None else weights)
    _check(workdir, "model", jax.eval_shape(lambda: build.init_weights(made, key)), arrays)
    part = compose.build(config.reparam)
    leaves = part.init(key, arrays) if adapter is None else adapter
    _check(workdir, "reparametrization", jax.eval_shape(part.init, key, arrays), leaves)
    with open(os.path.join(workdir, ORIGIN), "w") as file:
        json.dump({"run": found.workdir, "step": found.step, **(how or {})}, file, indent=2)
    folder = os.path.join(workdir, "checkpoints")
    with checkpoint.Checkpoints(folder, select=config.select, mode=config.select_mode) as checkpoints:
        stored = compose.stored(part, arrays)
        state = {"trainable": {**trees.with_prefix(stored, "base"), **trees.with_prefix(leaves, "adapter")}}
        checkpoints.save(0, state, data_state={"identity": {**data.identity, "base": ""}}, wait=True)
    return type(found)(workdir, "last", {})


def _check(workdir, what, wanted, given):
    difference = trees.differences(wanted, given)
    if difference:
        raise errors.CheckpointError(f"the weights for {workdir} are not those of its {what}: {difference}")
