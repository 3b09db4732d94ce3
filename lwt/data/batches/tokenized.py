"""Many texts as ids in one array, and the way from records to them."""

import dataclasses
import functools
import itertools

import numpy as np

from lwt import errors
from lwt.data import array_cache, sources


@dataclasses.dataclass(frozen=True)
class RaggedArray:
    """Rows of different lengths in one array: row i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: np.ndarray  # uint16 or int32, the ids of all rows
    offsets: np.ndarray  # int64, one more than there are rows

    @classmethod
    def of(cls, rows):
        """Joins lists of ids."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        values = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(values, np.concatenate([[0], lengths.cumsum()]))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self):
        """[rows] the number of ids of each row."""
        return np.diff(self.offsets)


def tokenize(source, tokens, *, cleaner, fields, folders=(), sides=None):
    """Cleans and encodes fields of all records: a `RaggedArray` per field, without begin and end marks.

    Args:
        source: a `sources.Source`.
        tokens: a `tokenizer.Tokenizer`.
        cleaner: a `text.Cleaner`.
        fields: names, such as ``("de", "en")``.
        folders: see `array_cache.cached`.
        sides: what encodes each field, if not `tokens` encodes all of them; its `fingerprint` stands for them.

    Raises:
        lwt.errors.DataError: a field is missing, or holds something other than text.
    """
    sources.need_fields(source.name, fields, there=source.fields)
    key = sources.digest("tokens 2", source.fingerprint, tokens.fingerprint, cleaner, *fields)
    sides = sides or [tokens] * len(fields)
    make = functools.partial(_make, source=source, sides=sides, dtype=tokens.dtype, cleaner=cleaner, fields=fields)
    found = array_cache.cached(key, folders, make=make)
    return tuple(RaggedArray(found[f"values_{i}"], found[f"offsets_{i}"]) for i in range(len(fields)))


def _make(append, *, source, sides, dtype, cleaner, fields):
    totals = [0] * len(fields)
    for i in range(len(fields)):
        append(f"offsets_{i}", np.zeros(1, np.int64))
    for start in range(0, len(source), sources.CHUNK):
        records = source.read(start, start + sources.CHUNK)
        for i, field in enumerate(fields):
            texts = [record[field] for record in records]
            wrong = next((j for j, text in enumerate(texts) if not isinstance(text, str)), None)
            if wrong is not None:
                raise errors.DataError(
                    f"{source.where(start + wrong)}: field {field!r} is not text: {texts[wrong]!r:.60}"
                )
            rows = RaggedArray.of(sides[i].encode([cleaner.clean(text) for text in texts]))
            append(f"values_{i}", rows.values.astype(dtype))
            append(f"offsets_{i}", totals[i] + rows.offsets[1:])
            totals[i] += len(rows.values)
