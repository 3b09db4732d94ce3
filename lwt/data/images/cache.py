"""Decoded images of a source in one file, mapped into memory."""

import collections.abc
import dataclasses
import functools
import logging
import math

import numpy as np

from lwt import errors, files
from lwt.data import arrays, formats, sources
from lwt.data.images import decoding

LOG = logging.getLogger(__name__)
SHOWN, MESSAGES = 3, 1000  # messages about malformed records: quoted in an error, kept in the cache
IMAGE = "image"


@dataclasses.dataclass(frozen=True)
class Arrays(collections.abc.Sequence):
    """Records whose images have one shape."""

    images: np.ndarray  # [all h w c] uint8 or float32; record i is ``images[index[i]]``
    columns: dict  # field -> [all] texts or numbers
    index: np.ndarray  # [n] int64

    def __len__(self):
        return len(self.index)

    def __getitem__(self, index):
        at = int(self.index[index])
        return {IMAGE: self.images[at]} | {field: column[at] for field, column in self.columns.items()}

    def where(self, index):
        """The file of a record, or its number."""
        at = int(self.index[index])
        return self.columns["file"][at] if "file" in self.columns else f"record {at}"

    def pick(self, indices):
        """The records of `indices`, in that order, with the same arrays."""
        return dataclasses.replace(self, index=self.index[np.asarray(indices, np.int64)])


def folder():
    """The folder of decoded images, in ``$LWT_CACHE`` or ``~/.cache/lwt``."""
    return files.cache_folder() / "images"


def decoded(source, *, size=0, channels=0, label="label", max_malformed=0.01, max_megabytes=formats.MAX_MEGABYTES):
    """The same source with decoded records (`Arrays`), without malformed ones.

    All runs share the arrays, which are kept in `folder()` under the fingerprint of the source and the settings; a
    damaged file is written again. Other fields that are texts or numbers are kept too.

    Args:
        source: a `sources.Source` with the fields ``image`` and `label`.
        size, channels: see `decoding.fit`. All images must have the shape of the first good one.
        label: a record without this field is malformed.
        max_malformed, max_megabytes: see `sources.load`.

    Raises:
        lwt.errors.DataError: there are no records or too many malformed ones, an archive is damaged, or the cache
            cannot be written.
    """
    sources.need_fields(source.name, (IMAGE, label), there=source.fields)
    fingerprint = sources.digest("images 1", source.fingerprint, size, channels, label)
    limit = () if max_megabytes == formats.MAX_MEGABYTES else (max_megabytes,)
    path = folder() / f"{sources.digest('images 2', fingerprint, *limit)}.npy"  # 2: the decoding has changed
    cached = _read(path)
    if cached is None:
        LOG.info("%s: decoding the images once, into %s", source.name, path)
        try:
            fit = functools.partial(decoding.fit, size=size, channels=channels)
            _write(path, source, label=label, fit=fit, max_megabytes=max_megabytes)
        except OSError as error:
            raise errors.DataError(
                f"{path.parent} cannot be written ({error.strerror}); set LWT_CACHE to a folder with room for images"
            ) from error
        cached = _read(path)
    images, about = cached
    bad, messages, notes = about["malformed"], about["messages"], about["notes"]
    _check(source, len(images), bad=bad, messages=messages, max_malformed=max_malformed)
    if bad:
        notes = [*notes, f"{source.name}: {bad} images are malformed and left out: {'; '.join(messages[:SHOWN])}"]
    return dataclasses.replace(
        source,
        records=Arrays(images, about["columns"], np.arange(len(images))),
        fields=(IMAGE, *about["columns"]),
        fingerprint=fingerprint,
        malformed=tuple(messages),
        notes=(*source.notes, *notes),
    )


def _read(path):
    """``(images, content of the JSON file beside them)``; None if a file is missing or damaged."""
    try:
        about = files.read_json(path.with_suffix(".json"))
        (count,) = {len(column) for column in about["columns"].values()}
        images = np.asarray(arrays.mapped(path))[:count]
        if len(images) != count or not {"malformed", "messages", "notes"} <= set(about):
            raise ValueError("it is incomplete")
        return images, about
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        LOG.warning("the cache %s is damaged (%s); decoding again", path, error)
        return None


def _write(path, source, *, label, **how):
    """Decodes all records: the images into one file, their other columns into a JSON file beside it."""
    total = len(source)
    if not total:
        raise errors.DataError(f"{source.name} has no images")
    images, columns, good, messages, bad = None, {}, 0, [], 0
    with files.replacing(path, checked=True) as temporary:
        for number in range(total):
            try:
                record, image = _decode(source, number, label=label, images=images, **how)
            except errors.DataError as error:
                bad += 1
                messages += [str(error)] if len(messages) < MESSAGES else []
                continue
            if images is None:
                images = np.lib.format.open_memmap(temporary, "w+", image.dtype, (total, *image.shape))
                columns = {name: [] for name in record}
            images[good] = image
            good += 1
            for name, column in columns.items():
                column.append(record.get(name))
        _check(source, good, bad=bad, messages=messages, max_malformed=1.0)
        classes = {name for part in source.parts for name in getattr(part.records, "classes", ())}
        for name in sorted(classes - {*columns[label]}):
            raise errors.DataError(
                f"{source.name}: no image of class {name!r} can be used: {'; '.join(messages[:SHOWN])}"
            )
        images.flush()
    about = {"columns": columns, "malformed": bad, "messages": messages}
    about["notes"] = [note for part in source.parts for note in getattr(part.records, "notes", ())]
    files.write_json(path.with_suffix(".json"), about, indent=None, checked=True)


def _decode(source, number, *, label, fit, max_megabytes, images):
    """``(texts and numbers of a record, its image)``; a DataError names a malformed record."""
    where = source.where(number)
    try:
        record = source[number]
        where, image = record.get("file", where), record[IMAGE]
        packed = image.get("bytes") if isinstance(image, dict) else image  # as the Hugging Face Hub stores images
        image = fit(decoding.decode(packed, where, max_megabytes=max_megabytes) if isinstance(packed, bytes) else image)
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in record.items()}
        plain = {name: value for name, value in plain.items() if _is_plain(value)}
        if label not in plain:
            raise ValueError(f"its {label} must be text or a number, not {record.get(label)!r:.60}")
        wanted = (image.shape, image.dtype) if images is None else (images.shape[1:], images.dtype)
        if (image.shape, image.dtype) != wanted:
            raise ValueError(
                f"it is {_of(image.shape, image.dtype)}, but the first image is {_of(*wanted)}; "
                "data.image_size and data.channels convert images"
            )
    except (ValueError, OSError) as error:
        raise errors.DataError(f"{where}: {error}") from error
    return plain, image


def _is_plain(value):
    """Whether a value is text or a finite number, which the cache can keep."""
    return isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value))


def _of(shape, dtype):
    return f"{' × '.join(map(str, shape))} {dtype}"


def _check(source, good, *, bad, messages, max_malformed):
    """Raises DataError if all images, or too many, are malformed."""
    total = good + bad
    if not good or bad > max_malformed * total:
        raise errors.DataError(
            f"{source.name}: {bad} of {total} images are malformed ({bad / total:.1%}, allowed {max_malformed:.1%}): "
            f"{'; '.join(messages[:SHOWN])}"
        )
