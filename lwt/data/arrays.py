"""Reads arrays of NumPy's files, which may be damaged or claim any size."""

import os
import pathlib
import zipfile

import numpy as np

from lwt import errors, files

MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of this machine
PREFIX = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def load(path, names=()):
    """The arrays `names` of an ``.npz`` file, {name: array}; or the array of an ``.npy`` file.

    Raises:
        lwt.errors.DataError: the file is damaged, holds objects or more than fits into memory, or lacks an array.
        FileNotFoundError: there is no such file.
    """
    try:
        with open(path, "rb") as file:
            if not names:
                _check_size(file, os.path.getsize(path))
                file.seek(0)
                return np.lib.format.read_array(file, allow_pickle=False)
            with zipfile.ZipFile(file) as archive:
                there = [pathlib.PurePath(name).stem for name in archive.namelist() if name.endswith(".npy")]
                found = {}
                for name in [name for name in names if name in there]:
                    with archive.open(f"{name}.npy") as member:
                        _check_size(member, archive.getinfo(f"{name}.npy").file_size)
                    with archive.open(f"{name}.npy") as member:
                        found[name] = np.lib.format.read_array(member, allow_pickle=False)
                        if member.read(1):  # and compares the checksum at the end
                            raise ValueError("it is longer than its header says")
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever a damaged file makes NumPy and zipfile raise
        raise errors.DataError(
            f"{path} is damaged, holds objects or is too large ({errors.first_line(error)}); get the file again"
        ) from error
    if len(found) < len(names):
        held = ", ".join(there) or "none"
        raise errors.DataError(f"{path} must hold the arrays {' and '.join(names)}; it holds {held}")
    return found


def mapped(path):
    """Maps the array of a cached ``.npy`` file into memory, after its checksum was compared.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    files.verify(path)
    try:
        return np.load(path, mmap_mode="r")
    except OSError:
        raise
    except Exception as error:  # whatever a damaged header makes NumPy raise
        raise ValueError(errors.first_line(error)) from error


def _check_size(file, size):
    """Raises ValueError unless the rest of a file of `size` bytes can hold the array that its header declares."""
    version = np.lib.format.read_magic(file)
    shape, _, dtype = PREFIX.get(version, PREFIX[2, 0])(file)
    wanted = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if not dtype.hasobject and size - file.tell() != wanted:
        raise ValueError(f"its header declares {wanted} bytes, but {size - file.tell()} follow")
    if wanted > MEMORY:
        raise ValueError(f"an array of {wanted / 1e9:.1f} GB does not fit into {MEMORY / 1e9:.1f} GB of memory")
