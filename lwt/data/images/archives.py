"""Images in one file: a tar archive, or arrays."""

import collections.abc
import dataclasses
import functools
import lzma
import pathlib
import tarfile
import zlib

from lwt import errors
from lwt.data import arrays
from lwt.data.images import decoding, names


@dataclasses.dataclass(frozen=True)
class Archive(collections.abc.Sequence):
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
        """Log lines about files that are left out."""
        return self._content[1]

    @functools.cached_property
    def _content(self):
        """``([(name, class, bytes)], notes)``"""
        members, folders, paths, total = [], [], [], 0
        try:
            with tarfile.open(self.path, tarinfo=_Member) as file:
                for member in file:
                    paths += [member.name] if not member.isdir() else []
                    folders += [f"{member.name}/"] if member.isdir() else []
                    if not member.isdir() and names.is_image(member.name):
                        members.append((member.name, _bytes(file, member, self.max_megabytes * 1e6)))
                        total += len(members[-1][1])
                        if total > arrays.MEMORY:
                            raise MemoryError(f"its images take more than {total / 1e9:.0f} GB of memory")
                file.fileobj.seek(file.offset + tarfile.BLOCKSIZE)
                while block := file.fileobj.read(1 << 20):  # to the end, where a compressed file has its checksum
                    if any(block):
                        raise tarfile.ReadError("something follows its end; is it several archives in one file?")
        except (tarfile.TarError, lzma.LZMAError, zlib.error, OSError, EOFError, KeyError, MemoryError) as error:
            raise errors.DataError(
                f"{self.path} is damaged after {len(members)} images ({errors.first_line(error)}); get the file again"
            ) from error
        root = names.common_folders([name for name, _ in members])
        chosen, notes = names.images_among(paths, folders, root=root, where=self.path)
        chosen = {*chosen}
        return [(name, names.class_of(name, root=root), image) for name, image in members if name in chosen], notes


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
class Arrays(collections.abc.Sequence):
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
