"""What a run is asked to answer: a list of texts, the lines or the records of a file, or images."""

import collections.abc
import itertools
import os
import pathlib

from lwt import errors
from lwt.data import dialects, formats, text_fields
from lwt.data.images import names

STDIN = "-"


def checked(texts, *, kind=str):
    """The `texts` as a list.

    Args:
        texts: an iterable of texts.
        kind: a type, or a union of types, that every one of them must have.

    Raises:
        lwt.errors.DataError: `texts` is a single text or has no order; or one of its items is not a text.
    """
    single = isinstance(texts, str | bytes | os.PathLike) or not isinstance(texts, collections.abc.Iterable)
    if single or isinstance(texts, collections.abc.Mapping | collections.abc.Set) or getattr(texts, "ndim", 1) != 1:
        raise errors.DataError(
            f"this takes a list of texts, not {type(texts).__name__} {texts!r:.60}; for one text, give [text]"
        )
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, kind):
            raise errors.DataError(f"text {number} of {len(texts)} is {text!r:.60}; it must be a string")
        try:
            os.fspath(text).encode()
        except UnicodeEncodeError:
            raise errors.DataError(f"text {number} of {len(texts)} holds half a surrogate pair: {text!r:.60}") from None
    return texts


def read(path, data):
    """Yields the texts of a file that the `kinds.common.Data` of a run can predict from, in order.

    A file of one of the `formats` but ``.txt`` holds records. Any other file, standard input, and a ``.tsv``
    without a line that names the fields, holds one text a line. A line or cell may be as long as
    ``data.max_megabytes`` allows. For a run that reads images, `images` says what else `path` may be.

    Raises:
        lwt.errors.DataError: the file (`STDIN`: standard input) cannot be read, a line is not UTF-8, a record lacks a
            field, or a text is not what the run reads; the message names file and line.
    """
    if data.reads_images and (found := images(path)):
        yield from found
        return
    if holds_records(path, data):
        yield from (text for _, text in records(path, data))
        return
    for number, line in enumerate(_lines(str(path), data.max_megabytes), 1):
        try:
            data.check_input(line)
        except errors.DataError as error:
            raise errors.DataError(f"{path}:{number}: {error}") from error
        yield line


def images(path):
    """The image file `path`, or the image files in the folder `path` at any depth, sorted; [] if it is neither.

    Raises:
        lwt.errors.DataError: the folder has no image.
    """
    if not os.path.isdir(path):
        return [str(path)] if names.is_image(os.path.basename(path)) else []
    inside = pathlib.Path(path).rglob("*")
    found = sorted(str(one) for one in inside if names.is_image(one.relative_to(path).as_posix()))
    if not found:
        raise errors.DataError(f"{path} has no image; formats: {', '.join(names.SUFFIXES)}")
    return found


def holds_records(path, data):
    """Whether a file holds records, and not one text a line; see `read`."""
    path, form = str(path), formats.of(pathlib.Path(path))
    tabs = path.lower().endswith(".tsv")
    return form not in ("", ".txt") and not (tabs and not _names(path, data))


def records(path, data):
    """Yields ``(record, text)`` of a file of records: all fields of a record, and the text that `read` makes of it.

    The file is read record by record. Raises as `read` does.
    """
    fields = text_fields.names_in(data.input_fields)
    if not fields:
        raise errors.DataError(f"{path}: this run reads no records; give a .txt file with one path a line")
    if not os.path.isfile(path):
        raise errors.DataError(f"{path} cannot be read: No such file; give a file, or - for standard input")
    for _, line, _, record in formats.read([pathlib.Path(path)], max_megabytes=data.max_megabytes):
        try:
            if isinstance(record, formats.Malformed):
                raise errors.DataError(str(record))
            for field in fields:
                if field not in record:
                    there = ", ".join(map(str, record))
                    raise errors.DataError(f"the run reads the field {field!r}, and the record has only {there}")
            (text,) = checked([data.input_of(record)])
        except errors.DataError as error:
            raise errors.DataError(f"{path}:{line}: {error}") from error
        yield record, text


def chunks(texts, *, first, most):
    """Cuts an iterable into lists: `first` items, then twice as many each time, up to `most`."""
    texts, size = iter(texts), first
    while chunk := list(itertools.islice(texts, size)):
        yield chunk
        size = min(2 * size, most)


def _names(path, data):
    """Whether the first line of a ``.tsv`` names all fields that the data read."""
    fields, header = text_fields.names_in(data.input_fields), next(_lines(path, data.max_megabytes), "").split("\t")
    return bool(fields) and all(field in header for field in fields)


def _lines(path, max_megabytes):
    """Yields the lines of a file, or of standard input, without their ends."""
    limit = int(max_megabytes * 1e6)
    try:
        with dialects.as_utf8(open(0 if path == STDIN else path, "rb")) as file:
            for number in itertools.count(1):
                line = file.readline(limit + 1)
                if not line:
                    return
                if len(line) > limit or b"\0" in line:
                    long = f"is longer than data.max_megabytes={max_megabytes:g} allows"
                    fault = "has zero bytes, so it is not UTF-8" if b"\0" in line else long
                    raise errors.DataError(f"{path}:{number}: the line {fault}; each line must hold one text")
                try:
                    yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise errors.DataError(
                        f"{path}:{number}: not UTF-8 ({error.reason}); each line must hold one text, or one path"
                    ) from error
    except OSError as error:
        raise errors.DataError(
            f"{path} cannot be read: {error.strerror or error}; give a text file, or - for standard input"
        ) from error
