"""A bundle: one folder with all that a finished run is used by, and nothing that it was trained with.

    bundle.json          what it is: precision, step, and the sha256 of the other files
    model.safetensors    the weights, merged
    config.json          of the run
    tokenizer.model, labels.json, splits.json    as in a workdir, where there are any
    metrics.json         figures, and what they were measured on
    README.md            a card, to be completed by hand: the one file without a checksum

`lwt/export/bundle.py` writes it. `experiment.load` opens it as it opens a workdir.
"""

import hashlib
import json
import pathlib

import jax.numpy as jnp
import safetensors
import safetensors.flax

from lwt import errors

INFO, WEIGHTS, METRICS, CARD = "bundle.json", "model.safetensors", "metrics.json", "README.md"
KIND = "lwt bundle, 1"
FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = "int8"  # weights in the format of lwt/runs/integer_file.py


def is_bundle(folder):
    """Whether a folder is a bundle, damaged or not."""
    return pathlib.Path(folder, INFO).exists()


def describe(folder, **about):
    """Writes ``bundle.json`` for the files of a folder, with what there is to say `about` them."""
    files = sorted(path for path in folder.iterdir() if path.name != CARD)
    info = {"kind": KIND, **about, "files": {path.name: _digest(path) for path in files}}
    (folder / INFO).write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def read_info(folder):
    """What `describe` wrote; every file is there, and as it was.

    Raises:
        lwt.errors.CheckpointError: names the file that is missing or damaged.
    """
    folder = pathlib.Path(folder)
    try:
        info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        files, step, precision = info["files"].items(), int(info["step"]), info["precision"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.CheckpointError(f"{folder / INFO} is damaged: {error!r:.80}") from error
    if info.get("kind") != KIND or precision not in (*FLOATS, INTEGERS):
        raise errors.CheckpointError(f"{folder / INFO} is of kind {info.get('kind')!r}; it should be {KIND!r}")
    for name, digest in files:
        try:
            found = _digest(folder / name)
        except OSError as error:
            raise errors.CheckpointError(
                f"{folder / name} cannot be read: {error.strerror}; it is part of the bundle"
            ) from error
        if found != digest:
            raise errors.CheckpointError(f"{folder / name} is damaged: another checksum than {INFO} has")
    return {**info, "step": step}


def write_weights(path, weights, precision):
    """Writes a flat dict of arrays to a `pathlib.Path`, as floats of a `precision` of `FLOATS`.

    Raises:
        lwt.errors.NotFinite: a weight is not a number, or too large for float16.
    """
    arrays = {name: jnp.asarray(w).astype(precision) for name, w in weights.items()}
    for name, array in arrays.items():
        if not jnp.isfinite(array).all():
            raise errors.NotFinite(f"{name!r} is not finite in {precision}")
    path.write_bytes(safetensors.flax.save(arrays))


def read_weights(folder):
    """The weights of a bundle of floats, a flat dict of float32 arrays.

    Raises:
        lwt.errors.CheckpointError: they are integers, or damaged.
    """
    if read_info(folder)["precision"] == INTEGERS:
        raise errors.CheckpointError(
            f"{folder} holds integers, which lwt.load and eval.py read; to start a run or a method from it, bundle it "
            "with --precision=float32"
        )
    path = pathlib.Path(folder, WEIGHTS)
    try:
        return {name: jnp.asarray(array, jnp.float32) for name, array in safetensors.flax.load_file(path).items()}
    except safetensors.SafetensorError as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
