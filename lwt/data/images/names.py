"""Which files are images, and which class a file belongs to."""

import collections
import pathlib
import re

from lwt import errors
from lwt.data import layout

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def common_folders(names):
    """The number of folders that all images of an archive share above those of the classes."""
    folders = [parts(name)[:-1] for name in names]
    depth = 0
    while (
        folders and all(len(found) > depth + 1 for found in folders) and len({found[depth] for found in folders}) == 1
    ):
        depth += 1
    return depth


def class_of(name, *, root=0):
    """The class of an archive's member: its folder, or what follows the number ("00017_frog.jpg" -> "frog"), or ""."""
    found = parts(name)
    if len(found) > root + 1 or name.endswith("/"):
        return found[root] if len(found) > root else ""
    match = re.fullmatch(r"\d+_(.+)", found[-1].rpartition(".")[0])
    return match[1] if match and is_image(name) else ""


def images_among(names, folders, *, root=0, where):
    """``(names of images, notes on the other files)``.

    Raises:
        lwt.errors.DataError: a folder of a class has no image.
    """
    names, folders = ([name for name in some if not is_hidden(name)] for some in (names, folders))
    images, other = [name for name in names if is_image(name)], [name for name in names if not is_image(name)]
    classes = {class_of(name, root=root) for name in images}
    if len(classes) > 1 and classes <= {*layout.WORDS}:
        raise errors.DataError(f"{where} holds the splits {', '.join(sorted(classes))}; make one archive of each")
    for name in (*(name for name in other if len(parts(name)) > root + 1), *folders):
        label = class_of(name, root=root)
        if label and label not in classes:
            inside = _counted([name for name in other if class_of(name, root=root) == label])
            raise errors.DataError(
                f"{where}: class {label!r} has no image that can be read, only {inside or 'an empty folder'}; "
                f"formats: {', '.join(SUFFIXES)}"
            )
    unread = [name for name in other if len(parts(name)) > root + 1 or not layout.is_document(parts(name)[-1])]
    unread += [name for name in images if len(parts(name)) == 1] if where.is_dir() else []
    return images, (f"{where}: not read: {_counted(unread)}",) if unread else ()


def _counted(names):
    """The numbers of files by suffix, the most frequent first, such as "11 .heic, 2 .txt"."""
    counts = collections.Counter(pathlib.PurePath(name).suffix.lower() or pathlib.PurePath(name).name for name in names)
    return ", ".join(f"{count} {suffix}" for suffix, count in counts.most_common(8))


def parts(name):
    """The folders and the name of a file."""
    return pathlib.PurePosixPath(name).parts


def is_hidden(name):
    """Whether a file, or a folder above it, is hidden or made by macOS."""
    return any(part.startswith(".") and part != ".." or part == "__MACOSX" for part in parts(name))


def is_image(name):
    """Whether a file is read as an image, by its name."""
    return name.lower().endswith(SUFFIXES) and not is_hidden(name)
