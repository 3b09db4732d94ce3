"""Labelled texts, or pairs of texts, as the rows of a text encoder."""

import dataclasses
import functools
import hashlib

import numpy as np

from lwt import errors
from lwt.data import frame, sources
from lwt.data.batches import examples, text_rows

CUTS = ("end", "middle")


@dataclasses.dataclass(frozen=True)
class LabelledExamples(examples.Examples):
    """Rows of tokenized texts with their labels.

    Of rows that are too long, the longer text of a pair is cut first. A cut of "end" keeps the beginning of a text,
    "middle" as much of its end as of its beginning (Sun et al. 2019, arXiv 1905.05583, section 5.3.1).
    """

    sides: tuple  # one or two `tokenized.RaggedArray`
    labels: np.ndarray | None  # [n] int32 classes or float32 numbers; None to predict
    max_length: int  # tokens of a row
    frame: frame.Frame  # of the tokenizer
    cut: str = "end"  # one of `CUTS`

    def __post_init__(self):
        if self.labels is not None and len(self.labels) != len(self.sides[0]):
            raise errors.DataError(
                f"{len(self.sides[0])} tokenized texts and {len(self.labels)} labels; remove tokens/ from the workdir"
            )

    def __len__(self):
        return len(self.sides[0])

    @functools.cached_property
    def fingerprint(self):
        """A hash of what decides the order: the number of tokens of every record."""
        return sources.digest(*(hashlib.sha256(side.offsets.astype(np.int64)).hexdigest() for side in self.sides))

    def draw(self, records, rng):
        """See `examples.Examples`; nothing is random."""
        del rng
        sizes = [side.offsets[records + 1] - side.offsets[records] for side in self.sides]
        limit = self.max_length - self.frame.count(len(sizes))
        sizes = text_rows.truncate(sizes[0], sizes[1] if len(sizes) == 2 else np.zeros_like(sizes[0]), limit=limit)
        return {
            "record": records,
            "size": np.stack(sizes, axis=1),
            "length": sum(sizes) + self.frame.count(len(self.sides)),
        }

    def too_long(self, length):
        tokens = sum(side.lengths for side in self.sides) + self.frame.count(len(self.sides))
        return int((tokens > min(length, self.max_length)).sum())

    def batch(self, drawn, length, uniform):
        """``ids``, ``segments`` [n length] and ``example`` [n], the records, int32; if there are labels, ``label``."""
        del uniform
        records = drawn["record"]
        texts = [self._texts(side, records, size=drawn["size"][:, i]) for i, side in enumerate(self.sides)]
        ids, segments = text_rows.assemble(texts, length, frame=self.frame)
        batch = {"ids": ids, "segments": segments, "example": records.astype(np.int32)}
        return batch | ({} if self.labels is None else {"label": self.labels[records]})

    def _texts(self, side, records, *, size):
        """The side's texts, cut to `size` tokens, as `text_rows.assemble` takes them."""
        start = side.offsets[records]
        if self.cut == "end":
            return side.values, start, size
        begin = size.cumsum() - size
        within = np.arange(size.sum()) - np.repeat(begin, size)
        left_out = np.repeat(side.offsets[records + 1] - start - size, size)
        skipped = np.where(within < np.repeat((size + 1) // 2, size), 0, left_out)
        return side.values[np.repeat(start, size) + within + skipped], begin, size
