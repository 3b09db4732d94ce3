"""Image files: what they decode to, and where a folder keeps them and their classes.

A split of a folder is one of

    SPLIT/CLASS/NAME.png                  files by class; without splits CLASS/NAME.png, all of it ``train``
    SPLIT.tar                             (.gz, .xz, .bz2) of files CLASS/NAME.png or NUMBER_CLASS.png
    SPLIT.npz                             arrays ``image`` [n h w] or [n h w c], uint8 or floats, and ``label`` [n]

A record has ``image`` [h w] or [h w c], ``label`` (a class's name, or what an array holds) and, but for arrays,
``file``. Files are decoded when a record is read, arrays and archives when the first one is.
"""

import collections.abc
import dataclasses
import functools
import hashlib
import io
import lzma
import pathlib
import re
import tarfile
import zipfile
import zlib

import numpy as np

from lwt import errors

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
ARCHIVES = (".npz", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz")
ALONE = "train"  # the split of a folder that has none


def decode(content, where):
    """The bytes of an image file -> uint8 [h w 3], or [h w] if it is grey; turned as its EXIF data ask for.

    Raises:
        lwt.errors.DataError: no image that Pillow reads; `where` names it.
    """
    import PIL.Image  # imported here: texts need none
    import PIL.ImageOps

    try:
        with PIL.Image.open(io.BytesIO(content)) as image:
            image = PIL.ImageOps.exif_transpose(image)
            return np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))
    except (OSError, ValueError, EOFError, SyntaxError, zlib.error, PIL.Image.DecompressionBombError) as error:
        raise errors.DataError(f"{where} is no image that can be decoded: {error or type(error).__name__}") from error


def load(path):
    """One image: a file to `decode`, or the array in an ``.npy`` file.

    Raises:
        lwt.errors.DataError: it is not there, or holds no image.
    """
    path = pathlib.Path(path).expanduser()
    try:
        return np.load(path, allow_pickle=False) if path.suffix == ".npy" else decode(path.read_bytes(), path)
    except (OSError, ValueError, EOFError) as error:
        raise errors.DataError(f"{path} cannot be read ({error}); it should be the path of an image file") from error


def fit(image, *, size=0, channels=0):
    """An image as a model takes it.

    Args:
        image: [h w] or [h w c]; uint8, or floats (measured maps), of which only the type is changed.
        size: pixels of both sides, 0: as it is. The middle square is cut out and resized.
        channels: 3: of a grey image, three times the same; 1: of a coloured one, the brightness. 0: as it is.

    Returns:
        [h w c], uint8 or float32.

    Raises:
        ValueError: another shape or type; says which.
    """
    image = np.asarray(image)
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or not image.size:
        raise ValueError(f"its shape {image.shape} should be (height, width) or (height, width, channels)")
    if np.issubdtype(image.dtype, np.floating):
        if not np.isfinite(image).all():
            raise ValueError("it has numbers that are not finite")
        if size and image.shape[:2] != (size, size):
            raise ValueError(f"its floats, {image.shape[0]} × {image.shape[1]}, are not resized: set data.image_size=0")
        return image.astype(np.float32)
    if image.dtype != np.uint8:
        raise ValueError(f"its type {image.dtype} should be uint8, or floats")
    if image.shape[2] not in (1, 3) and (size or channels not in (0, image.shape[2])):
        raise ValueError(f"its {image.shape[2]} channels are neither 1 nor 3: set data.channels=0, data.image_size=0")
    return _converted(image, size, channels or image.shape[2])


def _converted(image, size, channels):
    if image.shape[2] == channels and size in (0, image.shape[0]) and size in (0, image.shape[1]):
        return image
    import PIL.Image
    import PIL.ImageOps

    made = PIL.Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    made = made.convert("L" if channels == 1 else "RGB")
    if size:
        made = PIL.ImageOps.fit(made, (size, size), PIL.Image.Resampling.BILINEAR)
    made = np.asarray(made)
    return made[..., None] if made.ndim == 2 else made


def splits(folder):
    """[(split, path)] of the images in a folder, or none: archives and arrays; else folders of folders by class."""
    archives = [(path.name[: -len(suffix)], path) for path in sorted(folder.iterdir()) if (suffix := archive(path))]
    if archives:
        return archives
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    if any(_holds_images(path) for path in inside):
        return [(ALONE, folder)]
    return [(path.name, path) for path in inside if any(_holds_images(c) for c in path.iterdir() if c.is_dir())]


def archive(path):
    """The suffix of an archive or of arrays, which may have two parts; empty for other files."""
    return next((suffix for suffix in ARCHIVES if path.name.endswith(suffix) and path.is_file()), "")


def records(path):
    """``(records, fingerprint)`` of one of `splits`' paths.

    Raises:
        lwt.errors.DataError: a damaged file.
    """
    if path.is_dir():
        found = Files(tuple(sorted(file for file in path.glob("*/*") if _is_image(file.name))))
        return found, found.fingerprint()
    with open(path, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return (Table(path) if archive(path) == ".npz" else Archive(path)), content


@dataclasses.dataclass(frozen=True)
class Files(collections.abc.Sequence):
    """Image files in folders that bear their classes' names."""

    paths: tuple

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return {"image": decode(path.read_bytes(), path), "label": path.parent.name, "file": str(path)}

    def fingerprint(self):
        """Of classes, names and contents."""
        hashed = hashlib.sha256()
        for path in self.paths:
            hashed.update(f"{path.parent.name}/{path.name}\0{path.stat().st_size}\0".encode())
            hashed.update(path.read_bytes())
        return hashed.hexdigest()


@dataclasses.dataclass(frozen=True)
class Archive(collections.abc.Sequence):
    """Image files in a tar archive, which is unpacked into memory once."""

    path: pathlib.Path

    def __len__(self):
        return len(self._members)

    def __getitem__(self, index):
        name, content = self._members[index]
        where = f"{self.path}:{name}"
        label = class_in(name)
        if label is None:
            raise errors.DataError(f"{where} does not tell its class: it should be CLASS/NAME or NUMBER_CLASS")
        return {"image": decode(content, where), "label": label, "file": name}

    @functools.cached_property
    def _members(self):
        found = []
        try:
            with tarfile.open(self.path) as file:
                for member in file:
                    if member.isfile() and _is_image(member.name):
                        found.append((member.name, file.extractfile(member).read()))
        except (tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError) as error:
            raise errors.DataError(
                f"{self.path} is damaged after {len(found)} images ({error}); get the file again"
            ) from error
        return found


@dataclasses.dataclass(frozen=True)
class Table(collections.abc.Sequence):
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
            raise errors.DataError(f"{self.path} should hold arrays image and label; there is: {there or 'nothing'}")
        image, label = arrays["image"], arrays["label"]
        if image.ndim not in (3, 4) or label.ndim != 1 or len(image) != len(label):
            raise errors.DataError(
                f"{self.path}: image {image.shape} and label {label.shape} should be [n h w] or [n h w c], and [n]"
            )
        return arrays


def class_in(name):
    """The class that a member's name tells: its folder, or what follows the number: ``"00017_frog.jpg"`` -> "frog"."""
    path = pathlib.PurePosixPath(name)
    if path.parent.name:
        return path.parent.name
    found = re.fullmatch(r"\d+_(.+)", path.stem)
    return found and found[1]


def _holds_images(folder):
    return any(_is_image(path.name) for path in folder.iterdir())


def _is_image(name):
    return name.lower().endswith(SUFFIXES) and not name.rpartition("/")[2].startswith(".")
