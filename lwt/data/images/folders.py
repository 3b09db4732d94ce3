"""The images of a folder and their classes.

A split is one of

    SPLIT/CLASS/NAME.png                  files by class; without splits CLASS/NAME.png, all of it ``train``
    SPLIT.tar                             (.gz, .xz, .bz2) of files CLASS/NAME.png or NUMBER_CLASS.png
    SPLIT.npz                             arrays ``image`` [n h w] or [n h w c], uint8 or floats, and ``label`` [n]

A record has ``image`` [h w] or [h w c], ``label`` (the name of a class, or a value of the array) and, except in arrays,
``file``. Files are decoded when a record is read; arrays and archives are loaded with their first record.
"""

import collections.abc
import dataclasses
import functools
import hashlib
import lzma
import pathlib
import re
import tarfile
import zipfile
import zlib

import numpy as np

from lwt import errors, files
from lwt.data.images import decoding

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
ARCHIVES = (".npz", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz")
ALONE = "train"  # the split of a folder without splits


def splits(folder):
    """``[(split, path)]`` of the images in a folder: archives and arrays, or else folders by class."""
    archives = [(path.name[: -len(suffix)], path) for path in sorted(folder.iterdir()) if (suffix := archive(path))]
    if archives:
        return archives
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    if any(_holds_images(path) for path in inside):
        return [(ALONE, folder)]
    return [(path.name, path) for path in inside if any(_holds_images(c) for c in path.iterdir() if c.is_dir())]


def archive(path):
    """The suffix of a file that is one of `ARCHIVES`, such as ".tar.gz"; "" for any other path."""
    return next((suffix for suffix in ARCHIVES if path.name.endswith(suffix) and path.is_file()), "")


def records(path):
    """``(records, fingerprint)`` of a path that `splits` returned."""
    if path.is_dir():
        images = ImageFiles(tuple(sorted(file for file in path.glob("*/*") if _is_image(file.name))))
        return images, images.fingerprint()
    return (ImageArrays(path) if archive(path) == ".npz" else ImageArchive(path)), files.sha256(path)


@dataclasses.dataclass(frozen=True)
class ImageFiles(collections.abc.Sequence):
    """Image files in one folder per class."""

    paths: tuple

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return {"image": decoding.decode(path.read_bytes(), path), "label": path.parent.name, "file": str(path)}

    def fingerprint(self):
        """A hash of classes, names and contents."""
        hashed = hashlib.sha256()
        for path in self.paths:
            hashed.update(f"{path.parent.name}/{path.name}\0{path.stat().st_size}\0".encode())
            hashed.update(path.read_bytes())
        return hashed.hexdigest()


@dataclasses.dataclass(frozen=True)
class ImageArchive(collections.abc.Sequence):
    """Image files in a tar archive, which is read into memory."""

    path: pathlib.Path

    def __len__(self):
        return len(self._members)

    def __getitem__(self, index):
        name, content = self._members[index]
        where = f"{self.path}:{name}"
        label = class_in(name)
        if label is None:
            raise errors.DataError(f"{where} does not name its class: it should be CLASS/NAME or NUMBER_CLASS")
        return {"image": decoding.decode(content, where), "label": label, "file": name}

    @functools.cached_property
    def _members(self):
        members = []
        try:
            with tarfile.open(self.path) as file:
                for member in file:
                    if member.isfile() and _is_image(member.name):
                        members.append((member.name, file.extractfile(member).read()))
        except (tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError) as error:
            raise errors.DataError(
                f"{self.path} is damaged after {len(members)} images ({error}); get the file again"
            ) from error
        return members


@dataclasses.dataclass(frozen=True)
class ImageArrays(collections.abc.Sequence):
    """Arrays ``image`` and ``label`` of an ``.npz`` file."""

    path: pathlib.Path

    def __len__(self):
        return len(self._arrays["label"])

    def __getitem__(self, index):
        return {"image": self._arrays["image"][index], "label": self._arrays["label"][index].item()}

    @functools.cached_property
    def _arrays(self):
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in ("image", "label") if name in file}
                there = ", ".join(file)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise errors.DataError(f"{self.path} is damaged, or holds objects ({error}); get the file again") from error
        if len(arrays) != 2:
            raise errors.DataError(f"{self.path} should hold the arrays image and label; it holds {there or 'none'}")
        image, label = arrays["image"], arrays["label"]
        if image.ndim not in (3, 4) or label.ndim != 1 or len(image) != len(label):
            raise errors.DataError(
                f"{self.path}: image {image.shape} and label {label.shape} should be [n h w] or [n h w c], and [n]"
            )
        return arrays


def class_in(name):
    """The class of an archive's member: its folder, or what follows the number ("00017_frog.jpg" -> "frog")."""
    path = pathlib.PurePosixPath(name)
    if path.parent.name:
        return path.parent.name
    match = re.fullmatch(r"\d+_(.+)", path.stem)
    return match and match[1]


def _holds_images(folder):
    return any(_is_image(path.name) for path in folder.iterdir())


def _is_image(name):
    return name.lower().endswith(SUFFIXES) and not name.rpartition("/")[2].startswith(".")
