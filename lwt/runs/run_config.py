"""The config of a run as its workdir keeps it, in ``config.json``."""

import json
import os
import pathlib

import jax
import ml_collections

from lwt import errors, trees
from lwt.data.kinds import pairs, supervised
from lwt.machine import devices
from lwt.runs import checkpoint

NAME = "config.json"
MAY_CHANGE = (  # in a run that is gone on with
    *("steps", "epochs", "log_every", "eval_every", "save_every", "keep_last", "select", "select_mode"),
    *("profile_steps", "mesh", "sharding"),
)
SECTIONS = {  # every key that a config has to have: those of configs/common.py
    "": "seed steps epochs init_from init_checkpoint init_skip precision sharding mesh log_every eval_every save_every "
    "eval_decode keep_last select select_mode profile_steps",
    "model.": "name",
    "reparam.": "name",
    "task.": "name",
    "data.": "kind train validation test fields label leak_free masking join max_train_records max_eval_records "
    "max_malformed min_tokens max_tokens rows row_length cut eval_batch image_size channels randaugment packed",
    "data.clean.": "lowercase strip_accents remove_urls remove_html unicode characters",
    "data.tokenizer.": "vocabulary split_digits path",
    "optimizer.": "name learning_rate arguments weight_decay decay_rules rate_rules trainable clip_norm accumulate",
    "optimizer.schedule.": "name",
}
# Keys that there once were not, with what those runs did.
ADDED = {"data": {"packed": True, "cut": "end", "max_eval_records": 0}}
KEYS = tuple(section + key for section, keys in SECTIONS.items() for key in keys.split())


def require(config, where):
    """Refuses a config that lacks a key; `where` says whose it is.

    Raises:
        lwt.errors.ConfigError: names the first key that is missing.
    """
    for key in KEYS:
        place = config
        for part in key.split("."):
            if not isinstance(place, ml_collections.ConfigDict) or part not in place:
                raise errors.ConfigError(
                    f"{where} has no key {key}: it should have those of configs/common.py, which says what they mean "
                    "(a config.json of an older version can be given one by hand)"
                )
            place = place[part]


def keep(config, workdir):
    """Writes ``workdir/config.json``; a workdir with checkpoints of another config is refused.

    Without a checkpoint there is nothing to lose: a call that failed, or was wrong, is then started over by a right
    one, which makes its own tokenizer.

    Raises:
        lwt.errors.ConfigError: names the first key that differs; or the workdir cannot be written.
    """
    path = os.path.join(workdir, NAME)
    new = json.loads(json.dumps(config.to_dict()))
    old = json.loads(json.dumps(_parse(path).to_dict())) if os.path.exists(path) else new
    difference = _difference(trees.flatten(old), trees.flatten(new))
    begun = checkpoint.Checkpoints(os.path.join(workdir, "checkpoints")).last_step() is not None
    if difference and begun:
        raise errors.ConfigError(
            f"{workdir} holds a run with {difference}; give another --workdir, or the same config to go on"
        )
    devices.wait_for_all("lwt config read")
    if jax.process_index() == 0:
        try:
            os.makedirs(workdir, exist_ok=True)
            if difference:
                for made in (pairs.TOKENIZER, supervised.SPLITS, supervised.LABELS):
                    pathlib.Path(workdir, made).unlink(missing_ok=True)
            with open(f"{path}.tmp", "w") as file:
                json.dump(new, file, indent=2)
            os.replace(f"{path}.tmp", path)
        except OSError as error:
            raise errors.ConfigError(
                f"--workdir={workdir} cannot be written ({error.strerror}); it should be a folder, there or new"
            ) from error
    devices.wait_for_all("lwt config written")


def read(workdir):
    """The config of an existing run.

    Raises:
        lwt.errors.CheckpointError: there is none, or it is damaged.
        lwt.errors.ConfigError: it lacks a key, as one of an older version may.
    """
    path = os.path.join(workdir, NAME)
    config = _parse(path)
    require(config, path)
    return config


def _parse(path):
    try:
        with open(path) as file:
            config = ml_collections.ConfigDict(json.load(file))
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


def _difference(old, new):
    """The first key of two flat configs that may not change and did, in words; else empty."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key) and key.split("/")[0] not in MAY_CHANGE:
            return f"{key.replace('/', '.')}={old.get(key)!r}, not {new.get(key)!r}"
    return ""
