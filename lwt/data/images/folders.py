"""The images of a folder and their classes.

A split is one of

    SPLIT/CLASS/NAME.png                  files by class, at any depth; without splits CLASS/NAME.png, all ``train``
    SPLIT.tar                             (.gz, .xz, .bz2) of files CLASS/NAME.png or NUMBER_CLASS.png
    SPLIT.npz                             arrays ``image`` [n h w] or [n h w c], uint8 or floats, and ``label`` [n]

A record has ``image`` [h w] or [h w c], ``label`` (the name of a class, or a value of the array) and, except in arrays,
``file``. Files are decoded when a record is read; arrays and archives are loaded with their first record. Files that
are not images are counted; a class of such files alone is an error.
"""

import collections.abc
import dataclasses
import hashlib
import os
import pathlib

from lwt import errors, files
from lwt.data import formats, layout
from lwt.data.images import archives, decoding, names

ARCHIVES = (".npz", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz")
ALONE = "train"  # the split of a folder without splits
FIELDS = ("image", "label", "file")


def splits(folder):
    """``{split: [layout.Part, ...]}`` of the images in a folder: archives and arrays, or else folders by class."""
    packed = [(path, archive(path)) for path in sorted(folder.iterdir()) if archive(path)]
    if packed:
        return layout.grouped([(path.name[: -len(suffix)], suffix, path) for path, suffix in packed])
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and not names.is_hidden(path.name)]
    by_name = [path for path in inside if layout.known(path.name) in layout.WORDS]
    if not by_name and any(names.is_image(path.name) for folder in inside for path in folder.iterdir()):
        return {ALONE: [layout.Part((folder,))]}
    return {
        layout.known(path.name): [layout.Part((path,))]
        for path in by_name or inside
        if any(_holds_images(inner) for inner in path.iterdir() if inner.is_dir())
    }


def archive(path):
    """The suffix of a file that is one of `ARCHIVES`, such as ".tar.gz"; "" for any other path."""
    return next((suffix for suffix in ARCHIVES if path.name.lower().endswith(suffix) and path.is_file()), "")


def records(path, *, max_megabytes=formats.MAX_MEGABYTES):
    """``(records, fingerprint, fields)`` of a path that `splits` returned.

    Raises:
        lwt.errors.DataError: a class has no image.
    """
    if path.is_dir():
        images = ImageFiles.of(path, max_megabytes)
        return images, images.fingerprint(), FIELDS
    if archive(path) == ".npz":
        return archives.Arrays(path), files.sha256(path), FIELDS[:2]
    return archives.Archive(path, max_megabytes), files.sha256(path), FIELDS


@dataclasses.dataclass(frozen=True)
class ImageFiles(collections.abc.Sequence):
    """Image files in one folder per class."""

    folder: pathlib.Path
    paths: tuple  # relative to the folder
    notes: tuple  # about files that are not read
    max_megabytes: float

    @classmethod
    def of(cls, folder, max_megabytes):
        """The images in the folders of the classes in `folder`."""
        walk = [(pathlib.Path(place), files) for place, _, files in os.walk(folder, followlinks=True)]
        paths = sorted(
            (str((place / file).relative_to(folder)) for place, found in walk for file in found), key=names.parts
        )
        classes = [f"{path.name}/" for path in folder.iterdir() if path.is_dir()]
        chosen, notes = names.images_among(paths, classes, where=folder)
        return cls(folder, tuple(path for path in chosen if len(names.parts(path)) > 1), notes, max_megabytes)

    def __len__(self):
        return len(self.paths)

    @property
    def classes(self):
        """The names of the classes."""
        return {names.parts(name)[0] for name in self.paths}

    def __getitem__(self, index):
        path = self.folder / self.paths[index]
        image = decoding.decode(path.read_bytes(), path, max_megabytes=self.max_megabytes)
        return {"image": image, "label": names.parts(self.paths[index])[0], "file": str(path)}

    def fingerprint(self):
        """A hash of classes, names and contents."""
        hashed = hashlib.sha256()
        for name in self.paths:
            path = self.folder / name
            try:
                content = path.read_bytes()
            except OSError as error:
                raise errors.DataError(f"{path} cannot be read: {error.strerror}") from error
            hashed.update(f"{name}\0{len(content)}\0".encode())
            hashed.update(content)
        return hashed.hexdigest()


def _holds_images(folder):
    return any(names.is_image(file) for _, _, found in os.walk(folder) for file in found)
