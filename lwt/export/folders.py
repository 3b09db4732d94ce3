"""Exported folders, and the arrays in them in the safetensors format."""

import contextlib
import json
import os
import pathlib
import re

import numpy as np
import safetensors.numpy

from lwt import errors, files
from lwt.runs import bundle

LISTED = ".export.json"  # the files that an export wrote
BUILT = re.compile(r"classify|translate|.+\.(elf|ld|o|a|bin|map|pyc)|(build|__pycache__|\.pio)/.*")  # from these files
MAGIC = {"safetensors": (8, b"{"), "tflite": (4, b"TFL3"), "onnx": (0, b"\x08")}  # kind -> place, and bytes there
FORMAT = {"format": "pt"}  # transformers refuses a file without this metadata


@contextlib.contextmanager
def new(path, *, marker="", key=""):
    """Yields an empty folder that appears at `path`, with all its files, when the block ends, or not at all.

    A folder with a file `marker` is an older export and is replaced, unless it also has files that no export wrote;
    with a `key`, the file must be JSON that has it.

    Raises:
        lwt.errors.ConfigError: `path` holds something else already, or cannot be written.
    """
    path = pathlib.Path(path)
    if not path.name:
        raise errors.ConfigError(f"--out={path} should name a new folder, such as --out=exported")
    is_free = not os.path.exists(path) or os.path.isdir(path) and not os.listdir(path)  # they take names of any length
    if not is_free and not (marker and _is_marked(path / marker, key)):
        raise errors.ConfigError(f"--out={path} already holds something; give another folder")
    if foreign := () if is_free else _foreign(path):
        raise errors.ConfigError(
            f"--out={path} also holds {', '.join(foreign[:5])}, which no export wrote; move it, or give another folder"
        )
    try:
        with files.replacing_folder(path) as folder:
            yield folder
            if marker:
                files.write_json(folder / LISTED, _files(folder))
    except OSError as error:
        place = str(path.absolute().parent)  # the folder is written beside `path`
        if error.filename is not None and not os.path.abspath(error.filename).startswith(place):
            raise errors.ConfigError(f"{error.filename}: {error.strerror}") from error
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror or error})") from error


def _foreign(path):
    """The files of an older export that it did not write, and that are not built of those; none if it has no list."""
    try:
        written = files.read_json(path / LISTED, kind=list)
    except (OSError, ValueError, TypeError):
        return []
    return [name for name in _files(path) if name not in written and name != LISTED and not BUILT.fullmatch(name)]


def _files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _is_marked(path, key):
    if not path.is_file() or not key:
        return path.is_file()
    try:
        return key in json.loads(path.read_bytes())
    except (OSError, ValueError, TypeError):
        return False


@contextlib.contextmanager
def new_file(path, *, kind):
    """A context that writes `path`, a file of a `kind` of `MAGIC`.

    Only an older export is replaced, and no weights of a bundle.

    Raises:
        lwt.errors.ConfigError: `path` holds something else already, or cannot be written.
    """
    start, magic = MAGIC[kind]
    try:
        if os.path.isfile(path) and os.path.getsize(path):
            with open(path, "rb") as file:
                folder, name = os.path.split(path)
                of_bundle = name == bundle.WEIGHTS and bundle.is_bundle(folder)
                if of_bundle or file.read(16)[start : start + len(magic)] != magic:
                    raise errors.ConfigError(f"--out={path} already holds something else; give another file")
        yield
    except OSError as error:
        raise errors.ConfigError(f"--out={path} cannot be written ({error.strerror}); give another file") from error


def write_arrays(path, arrays):
    """Writes ``{name: numpy or jax array}`` to a `pathlib.Path`."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path.write_bytes(safetensors.numpy.save(arrays, metadata=FORMAT))
