"""The manifest of a checkpoint's folder: size and sha256 of every file, beside what the checkpoint says of itself.

The manifest carries a checksum of its own, so that a damaged one is not believed either.
"""

import hashlib
import json
import math

import jax
import jax.numpy as jnp

from lwt import errors

NAME = "MANIFEST.json"


def describe(step, leaves, *, metrics=None):
    """What a checkpoint says of itself: evaluation figures (None: was not finite), shape and type by name."""
    return {
        "step": int(step),
        "metrics": {name: _figure(value) for name, value in (metrics or {}).items()},
        "leaves": {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in leaves.items()},
    }


def shapes(contents):
    """The described leaves as ``{name: jax.ShapeDtypeStruct}``."""
    return {name: jax.ShapeDtypeStruct(shape, _dtype(kind)) for name, (shape, kind) in contents["leaves"].items()}


def write(folder, contents):
    """Sums up every file in the folders below `folder` in its manifest, which appears whole or not at all.

    Files beside the manifest are Orbax' notes (it still changes one after this), and hold nothing that is restored.

    Args:
        folder: a `pathlib.Path`.
        contents: a dict for JSON; the key ``files`` is added.
    """
    files = sorted(path for path in folder.glob("*/**/*") if path.is_file())
    sums = {path.relative_to(folder).as_posix(): [path.stat().st_size, _digest(path)] for path in files}
    contents = {**contents, "files": sums}
    partial = folder / f"{NAME}.partial"
    partial.write_text(json.dumps({"sha256": _digest_of(contents), "contents": contents}, indent=1), encoding="utf-8")
    partial.replace(folder / NAME)


def read(folder):
    """The contents of the manifest in `folder`; its files are not looked at.

    Raises:
        lwt.errors.CheckpointError: there is none, or it is damaged.
    """
    path = folder / NAME
    try:
        document = json.loads(path.read_bytes())
        if _digest_of(document["contents"]) != document["sha256"]:
            raise ValueError("its own checksum differs")
    except FileNotFoundError:
        raise errors.CheckpointError(f"{folder}: no {NAME}, so its save was never finished") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise errors.CheckpointError(f"{path}: damaged ({error})") from error
    return document["contents"]


def verify(folder):
    """The contents of the manifest, after every file that it lists was read and compared.

    Raises:
        lwt.errors.CheckpointError: the first file that is missing, truncated or changed.
    """
    contents = read(folder)
    for name, (size, digest) in contents["files"].items():
        path = folder / name
        if not path.is_file():
            raise errors.CheckpointError(f"{path}: missing, though {NAME} lists it")
        if path.stat().st_size != size:
            raise errors.CheckpointError(f"{path}: {path.stat().st_size} bytes instead of {size}")
        if _digest(path) != digest:
            raise errors.CheckpointError(f"{path}: damaged, its checksum is not that of {NAME}")
    return contents


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(contents):
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def _figure(value):
    if isinstance(value, str):  # such as a BLEU score's signature
        return value
    return float(value) if math.isfinite(value) else None


def _dtype(name):
    return jax.random.key(0).dtype if name.startswith("key<") else jnp.dtype(name)
