"""Folders that other tools read, and what is in them: JSON, and arrays in the safetensors format."""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile

import numpy as np
import safetensors
import safetensors.flax
import safetensors.numpy

from lwt import errors

FORMAT = {"format": "pt"}  # metadata without which transformers refuses a file, and which say nothing else


@contextlib.contextmanager
def made(path):
    """A new folder, to be filled in the ``with`` block: it appears with all its files, or not at all.

    Raises:
        lwt.errors.ConfigError: there is something at `path` already, or it cannot be written.
    """
    path = pathlib.Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise errors.ConfigError(f"--out={path} holds something already; give another folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = pathlib.Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield new
            new.chmod(0o755)  # a temporary folder is for its owner alone
            os.replace(new, path)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror or error})") from error


def write_arrays(path, arrays):
    """Writes arrays of numpy (or of jax) by name."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=FORMAT))


def write_json(path, value):
    """Writes a value that JSON can hold."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def read_arrays(path):
    """The arrays of a .safetensors file by name, in float32, whatever floats it has.

    Raises:
        lwt.errors.CheckpointError: it is not there, or damaged.
    """
    try:
        return {name: np.asarray(array, np.float32) for name, array in safetensors.flax.load_file(path).items()}
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, safetensors.SafetensorError) as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error


def read_json(path):
    """The object (a dict) of a JSON file.

    Raises:
        lwt.errors.CheckpointError: it is not there, or damaged.
    """
    try:
        value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise errors.CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise errors.CheckpointError(f"{path} holds {value!r:.40}; it should be an object, in braces")
    return value
