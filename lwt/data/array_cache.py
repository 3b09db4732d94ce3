"""Arrays that are made once, kept in a folder, mapped into memory, and made again if they are damaged."""

import logging
import pathlib

import numpy as np

from lwt import errors, files

LOG = logging.getLogger(__name__)
META = "meta.json"


def cached(key, folders, *, make):
    """The arrays ``{name: [n]}`` that `make` makes, mapped into memory.

    Args:
        key: a fingerprint of everything that the arrays follow from.
        folders: where they are looked for; if they have to be made, the first of these that can be written keeps them.
        make: ``make(append)`` makes the arrays piece by piece: ``append(name, piece)`` adds to the end of one.

    Raises:
        lwt.errors.DataError: none of the folders can be written.
    """
    for folder in folders:
        found = _open(pathlib.Path(folder, key))
        if found is not None:
            return found
    path = None
    try:
        path = files.first_writable(*folders) / key
        with files.replacing_folder(path) as temporary:
            _write(temporary, make)
            found = _open(temporary)  # a mapped file outlives its name, whatever other processes do with the folder
    except OSError as error:
        found = path and _open(path)  # another process may have been faster
        if found is None:
            raise errors.DataError(
                f"{path or folders[0]} cannot be written ({error.strerror}); set LWT_CACHE to a folder with more room"
            ) from error
    return found


def _write(folder, make):
    opened, about = {}, {}

    def append(name, piece):
        if name not in opened:
            opened[name], about[name] = open(folder / name, "wb"), {"dtype": piece.dtype.name, "count": 0}
        opened[name].write(np.ascontiguousarray(piece, about[name]["dtype"]))
        about[name]["count"] += len(piece)

    try:
        make(append)
    finally:
        for file in opened.values():
            file.close()
    for name in about:
        about[name]["sha256"] = files.sha256(folder / name)
    files.write_json(folder / META, about, checked=True)


def _open(folder):
    """The arrays in a folder; None if they are missing or damaged."""
    try:
        return {name: _map(folder / name, **about) for name, about in files.read_json(folder / META).items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        LOG.warning("the cache %s is damaged (%s); it is made again", folder, error)
        return None


def _map(path, *, dtype, count, sha256):
    if files.sha256(path) != sha256:
        raise ValueError(f"{path.name} has another checksum than when it was written")
    if path.stat().st_size != count * np.dtype(dtype).itemsize:
        raise ValueError(f"{path.name} does not hold {count} numbers")
    return np.asarray(np.memmap(path, dtype, "r")) if count else np.zeros(0, dtype)
