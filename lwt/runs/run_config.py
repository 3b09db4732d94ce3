"""The config of a run, as its workdir stores it in ``config.json``."""

import json
import operator
import os

import jax
import ml_collections

from lwt import errors, files, trees
from lwt.data.kinds import common
from lwt.machine import devices
from lwt.runs import bases, bundle, checkpoint

NAME = bundle.CONFIG
MAY_CHANGE = (  # in a run that resumes
    *("steps", "epochs", "log_every", "eval_every", "save_every", "keep_last", "select", "select_mode"),
    *("profile_steps", "mesh", "sharding"),
)
SECTIONS = {  # every key that a config must have: those of configs/common.py
    "": "seed steps epochs init_from init_checkpoint init_skip precision sharding mesh log_every eval_every save_every "
    "eval_decode keep_last select select_mode profile_steps",
    "model.": "name",
    "reparam.": "name",
    "task.": "name",
    "data.": "kind train validation test fields label leak_free masking join max_train_records max_eval_records "
    "max_malformed max_megabytes min_tokens max_tokens rows row_length cut eval_batch image_size channels randaugment "
    "packed",
    "data.clean.": "lowercase strip_accents remove_urls remove_html unicode characters",
    "data.tokenizer.": "vocabulary split_digits path",
    "optimizer.": "name learning_rate arguments weight_decay decay_rules rate_rules lora_plus trainable clip_norm "
    "accumulate",
    "optimizer.schedule.": "name",
}
# Defaults for keys added later, so that older config.json files still load.
ADDED = {
    "data": {"packed": True, "cut": "end", "max_eval_records": 0, "max_megabytes": 256.0},
    "optimizer": {"lora_plus": 0.0},
}
KEYS = tuple(section + key for section, keys in SECTIONS.items() for key in keys.split())


def require(config, where):
    """Raises ConfigError for a config that lacks a key; `where` names the config in the message."""
    for key in KEYS:
        place = config
        for part in key.split("."):
            if not isinstance(place, ml_collections.ConfigDict) or part not in place:
                raise errors.ConfigError(
                    f"{where} has no key {key}: it should have every key of configs/common.py, which documents them "
                    "(add it by hand to the config.json of an older version)"
                )
            place = place[part]


def keep(config, workdir):
    """Writes ``workdir/config.json``; refuses a workdir with checkpoints of another config.

    Without a checkpoint there is nothing to lose: after a call that failed or was wrong, the next one starts over and
    makes its own tokenizer.

    Raises:
        lwt.errors.ConfigError: names the first key that differs; or the workdir is not writable.
    """
    path = os.path.join(workdir, NAME)
    new = as_json(config)
    old = as_json(_parse(path)) if os.path.exists(path) else new
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
                f"--workdir={workdir} cannot be written ({error.strerror}); it should be a folder, existing or new"
            ) from error
    devices.wait_for_all("lwt config written")


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
        raise errors.CheckpointError(
            f"{os.path.dirname(path)} is not the workdir of a run: {path} cannot be read ({error.strerror}); give the "
            "--workdir of a train.py call"
        ) from error
    except (ValueError, TypeError) as error:
        raise errors.CheckpointError(
            f"{path} is damaged: {error}; it should be the JSON that train.py wrote"
        ) from error
    for section, values in ADDED.items():
        if isinstance(config.get(section), ml_collections.ConfigDict):
            config[section] = {**values, **config[section]}
    return config


def difference(workdir, config, *, same=operator.eq):
    """Describes the first key in which the finished run of a workdir differs from a config; "" if none does.

    How long it trained is not compared, nor what does not change its figures: logging, saving and the devices.

    Args:
        same: ``(old value, new value) -> bool``.

    Raises:
        lwt.errors.CheckpointError: the workdir has no config.
    """
    old, new = (trees.flatten(as_json(one)) for one in (_parse(os.path.join(workdir, NAME)), config))
    return _difference(old, new, free=[key for key in MAY_CHANGE if not key.startswith("select")], same=same)


def _difference(old, new, *, free, same=operator.eq):
    """Describes the first key that differs between two flat configs and is not `free` to; else an empty text."""
    for key in sorted({*old, *new}):
        if not same(old.get(key), new.get(key)) and key.split("/")[0] not in free:
            return f"{key.replace('/', '.')}={old.get(key)!r}, not {new.get(key)!r}"
    return ""
