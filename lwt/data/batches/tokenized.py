"""Many texts as ids in one array, and the way from records to them."""

import dataclasses
import itertools
import logging
import pathlib
import zipfile
import zlib

import numpy as np

from lwt import errors, files
from lwt.data import sources

LOG = logging.getLogger(__name__)
CHUNK = 8192  # records read, cleaned and encoded at a time


@dataclasses.dataclass(frozen=True)
class RaggedArray:
    """Rows of different lengths in one array: row i is ``values[offsets[i]:offsets[i + 1]]``.

    Attributes:
        values: int32, the ids of all rows.
        offsets: int64, one more than there are rows.
    """

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows):
        """Joins lists of ids."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(values, np.concatenate([[0], lengths.cumsum()]))

    @classmethod
    def concatenate(cls, parts):
        """Joins the rows of several arrays."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([[0], lengths.cumsum()]))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self):
        """[rows] the number of ids of each row."""
        return np.diff(self.offsets)


def tokenize(source, tokens, *, cleaner, fields, cache_dir=None):
    """Cleans and encodes fields of all records: a `RaggedArray` per field, without begin and end marks.

    Args:
        source: a `sources.Source`.
        tokens: a `tokenizer.Tokenizer`.
        cleaner: a `text.Cleaner`.
        fields: names, such as ``("de", "en")``.
        cache_dir: the folder that keeps the result under the fingerprints of all of the above; a damaged file is
            written again.

    Raises:
        lwt.errors.DataError: a field is missing, or holds something other than text.
    """
    sources.need_fields(source.name, fields, there=source.fields)
    path = None
    if cache_dir is not None:
        key = sources.digest("tokens 1", source.fingerprint, tokens.fingerprint, cleaner, *fields)
        path = pathlib.Path(cache_dir) / f"{key}.npz"
        cached = _read(path, len(fields), len(source))
        if cached is not None:
            return cached
    encoded = [[] for _ in fields]
    for start in range(0, len(source), CHUNK):
        records = source.read(start, start + CHUNK)
        for parts, field in zip(encoded, fields, strict=True):
            texts = [record[field] for record in records]
            wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
            if wrong is not None:
                raise errors.DataError(
                    f"{source.where(start + wrong)}: field {field!r} is not text: {texts[wrong]!r:.60}"
                )
            parts.append(RaggedArray.of(tokens.encode([cleaner.clean(text) for text in texts])))
    result = tuple(map(RaggedArray.concatenate, encoded))
    if path is not None:
        arrays = {f"{name}_{i}": getattr(x, name) for i, x in enumerate(result) for name in ("values", "offsets")}
        with files.replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)
    return result


def _read(path, fields, records):
    """What `tokenize` kept at `path`; None if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as file:  # compares the checksums of the zip
            result = tuple(RaggedArray(file[f"values_{i}"], file[f"offsets_{i}"]) for i in range(fields))
        if all(len(ragged) == records and ragged.offsets[-1] == len(ragged.values) for ragged in result):
            return result
        raise ValueError("it holds other records")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        LOG.warning("the cache %s is damaged (%s); tokenizing again", path, error)
        return None
