"""Exported folders and the files in them: JSON, and arrays in the safetensors format."""

import contextlib
import os
import pathlib

import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.flax
import safetensors.numpy

from lwt import errors, files

MAGIC = {"safetensors": (8, b"{"), "tflite": (4, b"TFL3"), "onnx": (0, b"\x08")}  # kind -> place, and bytes there
FORMAT = {"format": "pt"}  # transformers refuses a file without this metadata


@contextlib.contextmanager
def new(path, *, marker=""):
    """Yields an empty folder that appears at `path`, with all its files, when the block ends, or not at all.

    A folder with a file `marker` is an older export and is replaced.

    Raises:
        lwt.errors.ConfigError: `path` holds something else already, or cannot be written.
    """
    path = pathlib.Path(path)
    is_free = not os.path.exists(path) or os.path.isdir(path) and not os.listdir(path)  # they take names of any length
    if not is_free and not (marker and (path / marker).is_file()):
        raise errors.ConfigError(f"--out={path} already holds something; give another folder")
    try:
        with files.replacing_folder(path) as folder:
            yield folder
    except OSError as error:
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror or error})") from error


@contextlib.contextmanager
def new_file(path, *, kind):
    """A context that writes `path`, a file of a `kind` of `MAGIC`; only an older export is replaced.

    Raises:
        lwt.errors.ConfigError: `path` holds something else already, or cannot be written.
    """
    start, magic = MAGIC[kind]
    try:
        if os.path.isfile(path) and os.path.getsize(path):
            with open(path, "rb") as file:
                if file.read(16)[start : start + len(magic)] != magic:
                    raise errors.ConfigError(f"--out={path} already holds something else; give another file")
        yield
    except OSError as error:
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror}); give another file") from error


def write_arrays(path, arrays):
    """Writes ``{name: numpy or jax array}`` to a `pathlib.Path`."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=FORMAT))


def read_arrays(path):
    """The arrays of a .safetensors file by name, converted to float32."""
    try:
        return as_weights(safetensors.flax.load_file(path), path)
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, safetensors.SafetensorError) as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error


def as_weights(arrays, path):
    """The arrays of the file `path` as float32.

    Raises:
        lwt.errors.CheckpointError: one holds integers, as files of quantized models do, or a number that is not finite.
    """
    for name, array in arrays.items():
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise errors.CheckpointError(f"{path}: {name} is of type {array.dtype}; lwt reads weights that are floats")
        if not np.isfinite(np.asarray(array, np.float32)).all():
            raise errors.CheckpointError(f"{path}: {name} is not finite")
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def read_json(path):
    """The object (a dict) of a JSON file."""
    try:
        return files.read_json(path)
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error
