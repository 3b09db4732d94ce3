"""A bundle: one folder with everything that using a trained run needs, and nothing that only its training needed.

    bundle.json          precision, step, and the sha256 of the other files
    model.safetensors    the weights, merged
    config.json          of the run
    tokenizer.model or tokenizer.json, labels.json, splits.json    as in a workdir, where the data have them
    calibration.json     the temperature of its probabilities, if one was fitted
    metrics.json         figures, and what they were measured on
    README.md            a model card, to be completed by hand: the only file without a checksum

`lwt/export/bundle.py` writes it, `experiment.load` opens it.
"""

import os
import pathlib

import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.flax

from lwt import errors, files
from lwt.data import tokenizer_files
from lwt.layers import quantized_weight

INFO, WEIGHTS, METRICS, CARD = "bundle.json", "model.safetensors", "metrics.json", "README.md"
CONFIG = "config.json"  # of runs, too
KIND = "lwt bundle, 1"
FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = tuple(quantized_weight.FORMATS)  # weights in the format of lwt/runs/integer_file.py


def is_bundle(folder):
    """Whether a folder is a bundle, damaged or not."""
    return os.path.exists(os.path.join(folder, INFO))


def describe(folder, **about):
    """Writes ``bundle.json`` with the checksums of the files of a folder, and what `about` says of them."""
    paths = sorted(path for path in folder.iterdir() if path.name != CARD and not path.name.startswith("."))
    info = {"kind": KIND, **about, "files": {path.name: files.sha256(path) for path in paths}}
    files.write_json(folder / INFO, info, checked=True)


def unlist(folder, name):
    """Takes a file that will change off the list of those with a checksum."""
    info = files.read_json(folder / INFO)
    if info["files"].pop(name, None):
        files.write_json(folder / INFO, info, checked=True)


def read_info(folder):
    """What `describe` wrote, after the checksum of every file was compared.

    Raises:
        lwt.errors.CheckpointError: a file is missing or damaged; or the list names something else than plain files of
            the folder, or lacks one that the model is made from.
    """
    folder = pathlib.Path(folder)
    try:
        info = files.read_json(folder / INFO)
        sums, step, precision = dict(info["files"]), int(info["step"]), info["precision"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.CheckpointError(f"{folder / INFO} is damaged: {error or type(error).__name__}") from error
    if info.get("kind") != KIND:
        raise errors.CheckpointError(f"{folder / INFO} is of kind {info.get('kind')!r}; it must be {KIND!r}")
    if precision not in (*FLOATS, *INTEGERS):
        raise errors.CheckpointError(
            f"{folder / INFO}: precision={precision!r:.80}; {errors.suggest(precision, (*FLOATS, *INTEGERS))}"
        )
    for name in {CONFIG, WEIGHTS, *({*tokenizer_files.NAMES} & set(os.listdir(folder)))} - sums.keys():
        raise errors.CheckpointError(f"{folder / INFO} does not list {name}, which is part of every bundle that has it")
    for name, digest in sums.items():
        path = folder / name
        plain = name == os.path.basename(name) and name not in ("", ".", "..")
        if not plain or os.path.exists(path) and not os.path.isfile(path):  # such as /dev/zero, or a pipe
            raise errors.CheckpointError(f"{folder / INFO} lists {name!r:.80}, which is not a plain file of its folder")
        try:
            found = files.sha256(folder / name)
        except OSError as error:
            raise errors.CheckpointError(
                f"{folder / name} cannot be read: {error.strerror}; it is part of the bundle"
            ) from error
        if found != digest:
            raise errors.CheckpointError(f"{folder / name} is damaged: its checksum differs from that in {INFO}")
    return {**info, "step": step}


def write_weights(path, weights, *, precision):
    """Writes a flat dict of arrays to a `pathlib.Path`, as finite floats of a `precision` of `FLOATS`."""
    arrays = {name: jnp.asarray(w).astype(precision) for name, w in weights.items()}
    for name, array in arrays.items():
        if not jnp.isfinite(array).all():
            raise errors.NotFinite(f"{name!r} is not finite in {precision}")
    path.write_bytes(safetensors.flax.save(arrays))


def read_weights(folder):
    """The weights of a bundle of floats, a flat dict of float32 arrays."""
    path = pathlib.Path(folder, WEIGHTS)
    try:
        arrays = safetensors.flax.load_file(path)
    except safetensors.SafetensorError as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error
    # NumPy converts: JAX would compile a function for every shape
    return {name: jnp.asarray(np.asarray(array, np.float32)) for name, array in arrays.items()}
