"""The images of a folder and their classes.

A split is one of

    SPLIT/CLASS/NAME.png                  files by class, at any depth; without splits CLASS/NAME.png, all ``train``
    SPLIT.tar                             (.gz, .xz, .bz2) of files CLASS/NAME.png or NUMBER_CLASS.png
    SPLIT.npz                             arrays ``image`` [n h w] or [n h w c], uint8 or floats, and ``label`` [n]

A record has ``image`` [h w] or [h w c], ``label`` (the name of a class, or a value of the array) and, except in arrays,
``file``. Files are decoded when a record is read; arrays and archives are loaded with their first record. Files that
are not images are counted; a class of such files alone is an error.
"""

import collections
import collections.abc
import dataclasses
import functools
import hashlib
import lzma
import os
import pathlib
import re
import tarfile
import zlib

from lwt import errors, files
from lwt.data import arrays, formats, layout
from lwt.data.images import decoding

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
ARCHIVES = (".npz", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2", ".tgz")
ALONE = "train"  # the split of a folder without splits
FIELDS = ("image", "label", "file")


def splits(folder):
    """``[(split, path)]`` of the images in a folder: archives and arrays, or else folders by class."""
    archives = [(path.name[: -len(suffix)], path) for path in sorted(folder.iterdir()) if (suffix := archive(path))]
    if archives:
        return [(layout.known(split), path) for split, path in archives]
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and not _is_hidden(path.name)]
    by_name = [path for path in inside if layout.known(path.name) in layout.WORDS]
    if not by_name and any(_is_image(path.name) for folder in inside for path in folder.iterdir()):
        return [(ALONE, folder)]
    return [
        (layout.known(path.name), path)
        for path in by_name or inside
        if any(_holds_images(c) for c in path.iterdir() if c.is_dir())
    ]


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
        return ImageArrays(path), files.sha256(path), FIELDS[:2]
    return ImageArchive(path, max_megabytes), files.sha256(path), FIELDS


@dataclasses.dataclass(frozen=True)
class ImageFiles(collections.abc.Sequence):
    """Image files in one folder per class."""

    folder: pathlib.Path
    names: tuple  # relative to the folder
    notes: tuple  # about files that are not read
    max_megabytes: float

    @classmethod
    def of(cls, folder, max_megabytes):
        """The images in the folders of the classes in `folder`."""
        walk = [(pathlib.Path(place), names) for place, _, names in os.walk(folder, followlinks=True)]
        names = sorted((str((place / n).relative_to(folder)) for place, found in walk for n in found), key=_parts)
        chosen, notes = _chosen(names, [f"{path.name}/" for path in folder.iterdir() if path.is_dir()], where=folder)
        return cls(folder, tuple(name for name in chosen if len(_parts(name)) > 1), notes, max_megabytes)

    def __len__(self):
        return len(self.names)

    @property
    def classes(self):
        """The names of the classes."""
        return {_parts(name)[0] for name in self.names}

    def __getitem__(self, index):
        path = self.folder / self.names[index]
        image = decoding.decode(path.read_bytes(), path, max_megabytes=self.max_megabytes)
        return {"image": image, "label": _parts(self.names[index])[0], "file": str(path)}

    def fingerprint(self):
        """A hash of classes, names and contents."""
        hashed = hashlib.sha256()
        for name in self.names:
            path = self.folder / name
            hashed.update(f"{name}\0{path.stat().st_size}\0".encode())
            hashed.update(path.read_bytes())
        return hashed.hexdigest()


@dataclasses.dataclass(frozen=True)
class ImageArchive(collections.abc.Sequence):
    """Image files in a tar archive, which is read into memory."""

    path: pathlib.Path
    max_megabytes: float

    def __len__(self):
        return len(self._content[0])

    def __getitem__(self, index):
        name, label, content = self._content[0][index]
        where = f"{self.path}:{name}"
        if not label:
            raise errors.DataError(f"{where} does not name its class: it must be CLASS/NAME or NUMBER_CLASS")
        image = decoding.decode(content, where, max_megabytes=self.max_megabytes)
        return {"image": image, "label": label, "file": name}

    @property
    def classes(self):
        """The names of the classes."""
        return {label for _, label, _ in self._content[0] if label}

    @property
    def notes(self):
        """What is not read."""
        return self._content[1]

    @functools.cached_property
    def _content(self):
        """``([(name, class, bytes)], notes)``"""
        members, folders, names = [], [], []
        try:
            with tarfile.open(self.path, tarinfo=_Member) as file:
                for member in file:
                    names += [member.name] if not member.isdir() else []
                    folders += [f"{member.name}/"] if member.isdir() else []
                    if not member.isdir() and _is_image(member.name):
                        members.append((member.name, _bytes(file, member, self.max_megabytes * 1e6)))
                file.fileobj.seek(file.offset + tarfile.BLOCKSIZE)
                while block := file.fileobj.read(1 << 20):  # to the end, where a compressed file has its checksum
                    if any(block):
                        raise tarfile.ReadError("something follows its end; is it several archives in one file?")
        except (tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError, KeyError, MemoryError) as error:
            raise errors.DataError(
                f"{self.path} is damaged after {len(members)} images ({errors.first_line(error)}); get the file again"
            ) from error
        root = _root([name for name, _ in members])
        chosen, notes = _chosen(names, folders, root=root, where=self.path)
        chosen = {*chosen}
        return [(name, _class(name, root), content) for name, content in members if name in chosen], notes


class _Member(tarfile.TarInfo):
    """A member whose damaged or missing header is an error, where tarfile would end the archive."""

    @classmethod
    def fromtarfile(cls, file):
        try:
            return super().fromtarfile(file)
        except tarfile.EOFHeaderError:
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"a header is damaged, or the end is missing: {error}") from error


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
        read = arrays.load(self.path, ("image", "label"))
        image, label = read["image"], read["label"]
        if image.ndim not in (3, 4) or label.ndim != 1 or len(image) != len(label):
            raise errors.DataError(
                f"{self.path}: image {image.shape} and label {label.shape} must be [n h w] or [n h w c], and [n]"
            )
        return read


def _bytes(file, member, limit):
    """The content of a member of an archive, or of the member that it links to."""
    if member.size > limit:
        raise errors.DataError(f"{file.name}:{member.name} is longer than data.max_megabytes={limit / 1e6:g} allows")
    content = file.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"{member.name} is not a file")
    return content.read()


def _root(names):
    """The number of folders that all images of an archive share above those of the classes."""
    folders = [_parts(name)[:-1] for name in names]
    depth = 0
    while (
        folders and all(len(found) > depth + 1 for found in folders) and len({found[depth] for found in folders}) == 1
    ):
        depth += 1
    return depth


def _class(name, root=0):
    """The class of an archive's member: its folder, or what follows the number ("00017_frog.jpg" -> "frog"), or ""."""
    parts = _parts(name)
    if len(parts) > root + 1 or name.endswith("/"):
        return parts[root] if len(parts) > root else ""
    match = re.fullmatch(r"\d+_(.+)", parts[-1].rpartition(".")[0])
    return match[1] if match and _is_image(name) else ""


def _chosen(names, folders, *, root=0, where):
    """``(names of images, notes on the other files)``.

    Raises:
        lwt.errors.DataError: a folder of a class has no image.
    """
    names, folders = ([name for name in some if not _is_hidden(name)] for some in (names, folders))
    images, other = [name for name in names if _is_image(name)], [name for name in names if not _is_image(name)]
    classes = {_class(name, root) for name in images}
    if len(classes) > 1 and classes <= {*layout.WORDS}:
        raise errors.DataError(f"{where} holds the splits {', '.join(sorted(classes))}; make one archive of each")
    for name in (*(name for name in other if len(_parts(name)) > root + 1), *folders):
        label = _class(name, root)
        if label and label not in classes:
            inside = _counted([name for name in other if _class(name, root) == label])
            raise errors.DataError(
                f"{where}: class {label!r} has no image that can be read, only {inside or 'an empty folder'}; "
                f"formats: {', '.join(SUFFIXES)}"
            )
    unread = [name for name in other if len(_parts(name)) > root + 1 or not layout.is_document(_parts(name)[-1])]
    unread += [name for name in images if len(_parts(name)) == 1] if where.is_dir() else []
    return images, (f"{where}: not read: {_counted(unread)}",) if unread else ()


def _counted(names):
    """ "11 .heic, 2 .txt" """
    counts = collections.Counter(pathlib.PurePath(name).suffix.lower() or pathlib.PurePath(name).name for name in names)
    return ", ".join(f"{count} {suffix}" for suffix, count in counts.most_common(8))


def _parts(name):
    """The folders and the name of a file."""
    return pathlib.PurePosixPath(name).parts


def _holds_images(folder):
    return any(_is_image(name) for _, _, names in os.walk(folder) for name in names)


def _is_hidden(name):
    return any(part.startswith(".") and part != ".." or part == "__MACOSX" for part in _parts(name))


def _is_image(name):
    return name.lower().endswith(SUFFIXES) and not _is_hidden(name)
