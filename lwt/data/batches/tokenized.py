"""Rows of ids of different lengths, and the way from records to them."""

import dataclasses
import itertools
import logging
import os
import pathlib
import zipfile
import zlib

import numpy as np

from lwt import errors
from lwt.data import sources

LOG = logging.getLogger(__name__)
CHUNK = 8192  # records read, cleaned and encoded at a time


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Rows of ids of different lengths: row i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: np.ndarray  # int32
    offsets: np.ndarray  # int64, one more than rows

    @classmethod
    def of(cls, rows):
        """From lists of ids."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(values, np.concatenate([[0], lengths.cumsum()]))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self):
        return np.diff(self.offsets)


def tokenize(source, tokens, cleaner, fields, *, cache_dir=None):
    """Cleans and encodes fields of all records: a `Ragged` for each field, without begin and end marks.

    Args:
        source: a `sources.Source`.
        tokens: a `tokenizer.Tokenizer`.
        cleaner: a `text.Cleaner`.
        fields: names, such as ``("de", "en")``.
        cache_dir: where the result is kept, by fingerprint of all of the above; a damaged file is made anew.

    Raises:
        lwt.errors.DataError: a field that is not there, or holds something else than text.
    """
    sources.need_fields(source.name, fields, source.fields)
    path = None
    if cache_dir is not None:
        key = sources.digest("tokens 1", source.fingerprint, tokens.fingerprint, cleaner, *fields)
        path = pathlib.Path(cache_dir) / f"{key}.npz"
        cached = _read_cache(path, len(fields), len(source))
        if cached is not None:
            return cached
    encoded = [[] for _ in fields]
    for start in range(0, len(source), CHUNK):
        records = source.read(start, start + CHUNK)
        for rows, field in zip(encoded, fields, strict=True):
            texts = [record[field] for record in records]
            wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
            if wrong is not None:
                raise errors.DataError(
                    f"{source.name}: field {field!r} of record {start + wrong} is no text: {texts[wrong]!r:.60}"
                )
            rows.append(Ragged.of(tokens.encode([cleaner.clean(text) for text in texts])))
    result = tuple(_concatenate(rows) for rows in encoded)
    if path is not None:
        _write_cache(path, result)
    return result


def _concatenate(parts):
    lengths = np.concatenate([part.lengths for part in parts])
    return Ragged(np.concatenate([part.values for part in parts]), np.concatenate([[0], lengths.cumsum()]))


def _read_cache(path, fields, records):
    try:
        with np.load(path, allow_pickle=False) as file:  # the zip's checksums are compared on the way
            found = tuple(Ragged(file[f"values_{i}"], file[f"offsets_{i}"]) for i in range(fields))
        if all(len(ragged) == records and ragged.offsets[-1] == len(ragged.values) for ragged in found):
            return found
        raise ValueError("it holds other records")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        LOG.warning("the cache %s is damaged (%s) and is made anew", path, error)
        return None


def _write_cache(path, result):
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.stem}.{os.getpid()}.part")
    arrays = {f"{name}_{i}": getattr(ragged, name) for i, ragged in enumerate(result) for name in ("values", "offsets")}
    with open(part, "wb") as file:
        np.savez(file, **arrays)
    part.replace(path)
