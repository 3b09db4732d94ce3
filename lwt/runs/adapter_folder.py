"""The folder ``adapter/`` of a run: what it trained, without its base. `experiment.load` opens it with the base.

    adapter.safetensors, adapter.json   the leaves, whole weights such as a head's, and what they mean
    config.json, labels.json            of the run: its model, task and classes may differ from those of the base

The tokenizer is that of the base.
"""

import functools
import os

from lwt import errors, files, trees
from lwt.data import labels
from lwt.reparam import adapters
from lwt.runs import bundle, checkpoint

FOLDER = "adapter"  # of a workdir
FILES = (bundle.CONFIG, labels.FILE)


def is_adapter(folder):
    """Whether a folder is the adapter of a run, damaged or not."""
    return os.path.exists(os.path.join(folder, adapters.INFO))


def of(workdir):
    """The folder ``adapter/`` of a run that wrote one, else `workdir` itself."""
    beside = os.path.join(workdir, FOLDER)
    return beside if is_adapter(beside) else workdir


def opens_alone(folder):
    """Whether a folder has a config; adapters of older versions have none, and have the model of their base."""
    return os.path.exists(os.path.join(folder, bundle.CONFIG))


def write(workdir, leaves, *, identity, **about):
    """Writes the adapter of a run beside its checkpoints.

    Args:
        workdir: of the run; its config and labels are copied.
        leaves: flat dict, those of the reparametrization.
        identity: fingerprints of the data, and of the base.
        about: further arguments of `adapters.save`.
    """
    folder = os.path.join(workdir, FOLDER)
    for name in FILES:
        if os.path.exists(os.path.join(workdir, name)):
            files.copy(os.path.join(workdir, name), os.path.join(folder, name))
    data = {name: value for name, value in identity.items() if name != "base"}
    adapters.save(folder, leaves, base_fingerprint=identity["base"], data=data, **about)


def restore(folder, which, *, config, identity):
    """What a run or an adapter alone has stored: ``(state, data state, step)``, see `checkpoint.Checkpoints.restore`.

    Args:
        folder: workdir of a run, or an adapter.
        which: "best", "last" or a step.
        config: of the run.
        identity: fingerprints of the data, which must be those in the folder.

    Raises:
        lwt.errors.CheckpointError: it is missing or damaged, or an adapter is of another step than `which`.
    """
    if not is_adapter(folder):
        with checkpoint.of_run(folder, config) as checkpoints:
            same = functools.partial(checkpoint.check_identity, identity=identity, where=checkpoints.folder)
            return checkpoints.restore(which, check=same)
    found = adapters.load(folder)
    if str(which) not in ("best", "last", str(found.step)):
        raise errors.CheckpointError(f"{folder} is the adapter of step {found.step}; it has no checkpoint {which}")
    saved = {"identity": {**found.data, "base": found.base_fingerprint}}
    checkpoint.check_identity(saved, identity=identity, where=folder)
    leaves = {**trees.with_prefix(found.whole, "base"), **trees.with_prefix(found.leaves, "adapter")}
    return trees.with_prefix(leaves, "trainable"), saved, found.step
