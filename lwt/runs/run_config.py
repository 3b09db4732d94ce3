"""The config of a run, as its workdir stores it in ``config.json``."""

import json
import math
import operator
import os
import pathlib
import re

import jax
import ml_collections

from lwt import errors, files, trees, values
from lwt.data.batches import labelled_examples
from lwt.data.kinds import common
from lwt.machine import devices
from lwt.runs import bases, bundle, checkpoint

NAME = bundle.CONFIG
MAY_CHANGE = (  # in a run that resumes
    *("steps", "epochs", "log_every", "eval_every", "save_every", "keep_last", "select", "select_mode"),
    *("patience", "profile_steps", "mesh", "sharding"),
)
STEPS = 2**31 - 1  # the most steps: the state counts them in an int32
NAMES = values.every(values.text(".+", "a name"))
SOURCES = values.either(values.text(), values.every(values.text()))
SIZE = values.whole(1, 2**24)  # of an axis of a batch
KEYS = {  # every key that a config must have, those of configs/common.py, and what its value may be
    "seed": values.whole(0, 2**32 - 1),
    "steps": values.whole(1, STEPS),
    "epochs": values.real(0),
    "init_from": values.text(),
    "init_checkpoint": values.text(r"best|last|\d+", "'best', 'last' or a step, such as '500'"),
    "init_skip": values.every(values.regex()),
    "precision": values.choice("float32", "bfloat16"),
    "sharding": values.rules(values.Value(lambda axes: _axes(axes))),
    "mesh": values.Value(lambda mesh: _mesh(mesh)),
    "log_every": values.whole(1),
    "save_every": values.whole(0),
    "eval_every": values.whole(0),
    "eval_decode": values.boolean(),
    "keep_last": values.whole(1),
    "select": values.text(".+", "the name of a figure"),
    "select_mode": values.choice("min", "max"),
    "patience": values.whole(0),
    "profile_steps": values.Value(lambda steps: _window(steps)),
    "model.name": values.text(),
    "reparam.name": values.text(),
    "task.name": values.text(),
    "tasks": values.Value(lambda tasks: _tasks(tasks)),
    "data.kind": values.text(),
    "data.train": values.text(),
    "data.validation": values.text(),
    "data.test": SOURCES,
    "data.fields": values.every(values.either(values.text(".+", "a name"), NAMES)),
    "data.label": values.text(".+", "the name of a field"),
    "data.label_separator": values.text(),
    "data.leak_free": values.boolean(),
    "data.masking": values.Value(
        lambda value: "" if isinstance(value, str) or hasattr(value, "items") else "a name or a section of shares"
    ),
    "data.join": values.whole(0),
    "data.max_train_records": values.whole(0),
    "data.max_eval_records": values.whole(0),
    "data.max_malformed": values.real(0, 1),
    "data.max_megabytes": values.real(0, above=True),
    "data.min_tokens": values.whole(0),
    "data.max_tokens": SIZE,
    "data.rows": SIZE,
    "data.row_length": SIZE,
    "data.target_row_length": values.whole(0),
    "data.cut": values.choice(*labelled_examples.CUTS),
    "data.eval_batch": SIZE,
    "data.image_size": values.whole(0),
    "data.channels": values.choice(0, 1, 3),
    "data.randaugment": values.either(values.every(values.whole(0), length=2), values.every(values.whole(), length=0)),
    "data.packed": values.boolean(),
    "data.clean.lowercase": values.boolean(),
    "data.clean.strip_accents": values.boolean(),
    "data.clean.remove_urls": values.boolean(),
    "data.clean.remove_html": values.boolean(),
    "data.clean.unicode": values.choice("", "NFC", "NFD", "NFKC", "NFKD"),
    "data.clean.characters": values.regex(),
    "data.tokenizer.vocabulary": values.whole(1, 10_000_000),
    "data.tokenizer.split_digits": values.boolean(),
    "data.tokenizer.path": values.text(),
    "optimizer.name": values.text(),
    "optimizer.learning_rate": values.real(0, above=True),
    "optimizer.arguments": values.Value(lambda value: "" if hasattr(value, "items") else "a section"),
    "optimizer.weight_decay": values.real(0),
    "optimizer.decay_rules": values.rules(values.real(0)),
    "optimizer.rate_rules": values.rules(values.real(0)),
    "optimizer.lora_plus": values.real(0),
    "optimizer.trainable": values.every(values.regex()),
    "optimizer.clip_norm": values.real(0),
    "optimizer.accumulate": values.whole(1),
    "optimizer.ema": values.real(0, 1, below=True),
    "optimizer.schedule.name": values.text(),
}
# Defaults for keys added later, so that older config.json files still load.
ADDED = {
    "data": {
        "packed": True,
        "cut": "end",
        "label_separator": "",
        "max_eval_records": 0,
        "max_megabytes": 256.0,
        "target_row_length": 0,
    },
    "optimizer": {"lora_plus": 0.0, "ema": 0.0},
}
ADDED_KEYS = {"patience": 0, "tasks": {}}  # the same, outside of sections


def require(config, where):
    """Raises ConfigError for a config that lacks a key; `where` names the config in the message."""
    for key in KEYS:
        _value(config, key, where)


def check(config):
    """Raises `lwt.errors.ConfigError` for a config that lacks a key or has a value outside its type or range."""
    for key, value in KEYS.items():
        value.require(key, _value(config, key, "the config"))
    for key, value in trees.flatten(config.to_dict()).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.ConfigError(f"{key.replace('/', '.')}={value} should be a finite number")


def _value(config, key, where):
    for part in key.split("."):
        if not isinstance(config, ml_collections.ConfigDict) or part not in config:
            raise errors.ConfigError(
                f"{where} has no key {key}: it should have every key of configs/common.py, which documents them "
                "(add it by hand to the config.json of an older version)"
            )
        config = config[part]
    return config


def _axes(axes):
    wrong = values.every(values.either(values.text(".+", "a name"), values.choice(None))).check(axes)
    named = [] if wrong else [axis for axis in axes if axis is not None]
    return wrong or ("" if len({*named}) == len(named) else "a tuple that names no axis twice")


def _tasks(tasks):
    right = hasattr(tasks, "items") and all(
        re.fullmatch(r"[\w-]+", name) and hasattr(keys, "items") and keys.get("train") for name, keys in tasks.items()
    )
    return "" if right else "a section {task: {train: KIND:NAME, ...}}, with letters, digits, _ and - in a task's name"


def _mesh(mesh):
    sizes = values.either(values.choice(-1), values.whole(1))
    right = hasattr(mesh, "items") and all(name and not sizes.check(size) for name, size in mesh.items())
    return "" if right else "a section {axis: devices}, with -1 for all devices that the other axes leave"


def _window(steps):
    right = not values.every(values.whole(1)).check(steps) and len(steps) in (0, 2) and list(steps) == sorted(steps)
    return "" if right else "(first, last), two steps in ascending order, or ()"


def keep(config, workdir):
    """Writes ``workdir/config.json``; refuses a bundle, and a workdir with checkpoints of another config.

    Without a checkpoint there is nothing to lose: after a call that failed or was wrong, the next one starts over and
    makes its own tokenizer.

    Raises:
        lwt.errors.ConfigError: names the first key that differs; or the workdir is not writable.
    """
    if bundle.is_bundle(workdir):
        raise errors.ConfigError(f"{workdir} is a bundle, which no run may overwrite; give another folder")
    path, new = os.path.join(workdir, NAME), as_json(config)
    old = as_json(kept(workdir) or config)
    if old["init_from"] and _real(old["init_from"], workdir) == _real(new["init_from"], workdir):  # it was moved
        old["init_from"] = new["init_from"]
    difference = _difference(trees.flatten(old), trees.flatten(new), free=MAY_CHANGE)
    begun = checkpoint.of_run(workdir).last_step() is not None
    if difference and begun:
        raise errors.ConfigError(
            f"{workdir} holds a run with {difference}; give another --workdir, or the same config to resume it"
        )
    devices.wait_for_all("lwt config read")
    if jax.process_index() == 0:
        try:
            if difference:
                for made in common.FILES:
                    files.remove(os.path.join(workdir, made))
            files.write_json(path, new, checked=True)
        except OSError as error:
            raise errors.ConfigError(
                f"--workdir={workdir} cannot be written ({error.strerror}); it must be a folder, existing or new"
            ) from error
    devices.wait_for_all("lwt config written")


def kept(workdir):
    """The config that a workdir holds, which may lack keys; None if it has no config."""
    path = os.path.join(workdir, NAME)
    return _parse(path) if os.path.exists(path) else None


def read(workdir):
    """The config of an existing run; raises CheckpointError or ConfigError if it is missing, damaged or incomplete."""
    path = os.path.join(workdir, NAME)
    config = _parse(path)
    require(config, path)
    return config


def as_json(config):
    """A config as JSON restores it: dicts, lists (in place of tuples), numbers and texts."""
    return json.loads(json.dumps(config.to_dict()))


def _real(base, workdir):
    """The folder of the run that the one in `workdir` started from, in one spelling."""
    return os.path.realpath(bases.find(base, workdir)) if base else ""


def _parse(path):
    try:
        config = ml_collections.ConfigDict(files.read_json(path))
    except OSError as error:
        folder = pathlib.Path(path).parent
        beside = [found.parent.name for found in folder.parent.glob(f"*/{NAME}")]
        hint = f"of the runs in {folder.parent}, {errors.suggest(folder.name, beside)}"
        hint = hint if beside else "give the folder of a training, or a bundle"
        raise errors.CheckpointError(
            f"{folder} is not the workdir of a run: {path} cannot be read ({error.strerror}); {hint}"
        ) from error
    except (ValueError, TypeError) as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}; it must be the JSON that train.py wrote") from error
    for key, value in ADDED_KEYS.items():
        config[key] = config.get(key, value)
    for section, added in ADDED.items():
        if isinstance(config.get(section), ml_collections.ConfigDict):
            config[section] = {**added, **config[section]}
    return config


def difference(workdir, config, *, same=operator.eq, length=False):
    """Describes the first key in which the finished run of a workdir differs from a config; "" if none does.

    What does not change its figures is not compared: logging, saving and the devices.

    Args:
        same: ``(old value, new value) -> bool``.
        length: whether steps and epochs are compared.

    Raises:
        lwt.errors.CheckpointError: the workdir has no config.
    """
    old, new = (trees.flatten(as_json(one)) for one in (_parse(os.path.join(workdir, NAME)), config))
    compared = ("select", "select_mode", *(("steps", "epochs") if length else ()))
    return _difference(old, new, free=[key for key in MAY_CHANGE if key not in compared], same=same)


def _difference(old, new, *, free, same=operator.eq):
    """Describes the first key that differs between two flat configs and is not `free` to; else an empty text."""
    for key in sorted({*old, *new}):
        if not same(old.get(key), new.get(key)) and key.split("/")[0] not in free:
            return f"{key.replace('/', '.')}={old.get(key)!r}, not {new.get(key)!r}"
    return ""
