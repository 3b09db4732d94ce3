"""The manifest of a checkpoint's folder: size and sha256 of every file, and a description of the arrays.

The manifest carries a checksum of its own, so that a damaged manifest is detected too.
"""

import json
import math
import os

import jax
import jax.numpy as jnp

from lwt import errors, files, trees

NAME = "MANIFEST.json"


def describe(step, leaves, *, metrics=None):
    """The description of a checkpoint: evaluation figures (None: was not finite), shape and type of every leaf."""
    return {
        "step": int(step),
        "metrics": _figures(metrics or {}),
        "leaves": {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in leaves.items()},
    }


def shapes(contents):
    """The described leaves as ``{name: jax.ShapeDtypeStruct}``."""
    return {name: jax.ShapeDtypeStruct(shape, _dtype(kind)) for name, (shape, kind) in contents["leaves"].items()}


def compare(folder, contents, *, wanted):
    """Raises CheckpointError unless the described leaves have the names, shapes and types of the flat dict `wanted`."""
    found = shapes(contents)
    difference = trees.differences(wanted, found)
    if not difference:
        casts = [f"{n}: {found[n].dtype} instead of {x.dtype}" for n, x in wanted.items() if found[n].dtype != x.dtype]
        difference = f"other types: {', '.join(casts[:6])}" if casts else ""
    if difference:
        raise errors.CheckpointError(f"{folder} belongs to another model; {difference}")


def write(folder, contents):
    """Writes the manifest of `folder`: `contents`, and the size and checksum of every file in the folders below it.

    Files beside the manifest are not covered: they are Orbax's notes, which Orbax may still change, and are not needed
    to restore.
    """
    paths = sorted(path for path in folder.glob("*/**/*") if path.is_file())
    sums = {path.relative_to(folder).as_posix(): [path.stat().st_size, files.sha256(path)] for path in paths}
    _write(folder, {**contents, "files": sums})


def add_metrics(folder, metrics):
    """Writes evaluation figures into the manifest of `folder`, in one step, so that a crash leaves the old one."""
    _write(folder, {**read(folder), "metrics": _figures(metrics)})


def read(folder):
    """The contents of the manifest in `folder`; the files that it lists are not checked.

    Raises:
        lwt.errors.CheckpointError: there is no manifest, or it is damaged.
    """
    path = folder / NAME
    try:
        document = json.loads(path.read_bytes())
        if _digest(document["contents"]) != document["sha256"]:
            raise ValueError("its own checksum differs")
    except FileNotFoundError:
        raise errors.CheckpointError(f"{folder}: no {NAME}, so its save never finished") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{path}: damaged ({error})") from error
    return document["contents"]


def verify(folder):
    """The contents of the manifest, after every file that it lists was read and compared.

    Raises:
        lwt.errors.CheckpointError: names the first file that is missing, truncated or changed.
    """
    contents = read(folder)
    for name, (size, digest) in contents["files"].items():
        path = folder / name
        if not os.path.isfile(path):
            raise errors.CheckpointError(f"{path}: missing, though {NAME} lists it")
        try:
            found = path.stat().st_size
            same = found == size and files.sha256(path) == digest
        except OSError as error:
            raise errors.CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
        if found != size:
            raise errors.CheckpointError(f"{path}: {found} bytes instead of {size}")
        if not same:
            raise errors.CheckpointError(f"{path}: damaged, its checksum differs from that in {NAME}")
    return contents


def _digest(contents):
    return files.sha256(json.dumps(contents, sort_keys=True).encode())


def _write(folder, contents):
    files.write_json(folder / NAME, {"sha256": _digest(contents), "contents": contents}, indent=1)


def _figures(metrics):
    return {name: _figure(value) for name, value in metrics.items()}


def _figure(value):
    if isinstance(value, str):  # such as a BLEU score's signature
        return value
    return float(value) if math.isfinite(value) else None


def _dtype(name):
    return jax.random.key(0).dtype if name.startswith("key<") else jnp.dtype(name)
