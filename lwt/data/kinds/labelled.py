"""Texts, or pairs of texts, with a label each, from source to batch: what a text encoder is fine-tuned on."""

import collections.abc
import dataclasses
import functools
import hashlib
import itertools
import logging

import numpy as np

from lwt import errors
from lwt.data import sources, splits
from lwt.data.batches import bucketed, tokenized
from lwt.data.kinds import supervised, text_data

LOG = logging.getLogger(__name__)
CUTS = ("end", "middle")


@dataclasses.dataclass(frozen=True)
class Examples:
    """Rows of tokenized texts with their labels, for `bucketed.Bucketed` and `bucketed.Padded`.

    Attributes:
        sides: one or two `tokenized.Ragged`.
        labels: [n] int32 classes or float32 numbers; None to predict.
        max_length: tokens of a row; longer ones are cut, the longer text of a pair first.
        cut: of `CUTS`, where a text loses what is too much: at its "end", or in its "middle", so that as much is left
            of its beginning as of its end (Sun et al. 2019, arXiv 1905.05583, section 5.3.1).
    """

    sides: tuple
    labels: np.ndarray | None
    max_length: int
    cut: str = "end"

    def __len__(self):
        return len(self.sides[0])

    @functools.cached_property
    def fingerprint(self):
        """Of what decides about the order: the number of tokens of every record."""
        return sources.digest(*(hashlib.sha256(side.offsets.astype(np.int64)).hexdigest() for side in self.sides))

    def draw(self, records, rng):
        """See `rows`; chance has no part in it."""
        del rng
        whole = [side.offsets[records + 1] - side.offsets[records] for side in self.sides]
        limit = self.max_length - 1 - len(whole)
        kept = bucketed.truncate(whole[0], whole[1] if len(whole) == 2 else np.zeros_like(whole[0]), limit)
        return {
            "record": records,
            "size": np.stack(kept, axis=1),
            "length": sum(kept) + 1 + len(whole),
            "cut": sum(whole) > limit,
        }

    def batch(self, drawn, length, uniform):
        """``ids``, ``segments`` [n length] and ``example`` [n], the records, int32; if there are labels, ``label``."""
        del uniform
        records = drawn["record"]
        texts = [self._kept(side, records, drawn["size"][:, i]) for i, side in enumerate(self.sides)]
        ids, segments = bucketed.assemble(texts, length)
        batch = {"ids": ids, "segments": segments, "example": records.astype(np.int32)}
        return batch | ({} if self.labels is None else {"label": self.labels[records]})

    def _kept(self, side, records, size):
        """What `bucketed.assemble` takes of texts of which `size` tokens are left."""
        start = side.offsets[records]
        if self.cut == "end":
            return side.values, start, size
        begin = size.cumsum() - size
        within = np.arange(size.sum()) - np.repeat(begin, size)
        left_out = np.repeat(side.offsets[records + 1] - start - size, size)
        skipped = np.where(within < np.repeat((size + 1) // 2, size), 0, left_out)
        return side.values[np.repeat(start, size) + within + skipped], begin, size


class Labelled(supervised.Supervised, text_data.TextData):
    """The data of a fine-tuning run (``config.data``); see `text_data.TextData` and `supervised.Supervised`.

    ``data.fields`` names one or two text fields, or is empty: see `splits.FIELDS`. The workdir keeps what they are
    called.
    """

    FACTS = ("fields",)

    @property
    def fields(self):
        """The text fields of a record, one or two."""
        return tuple(self._kept["fields"])

    def training(self, *, process=0, processes=1):
        """Endless batches (`bucketed.Bucketed`) of the training part."""
        batches = self._bucketed(process=process, processes=processes)
        shape = self._measured
        LOG.info(
            "%s: %d records, %s, %.1f batches an epoch, %.1f %% of the places are real, rows of %s",
            self.splits.train.name,
            len(self._train_examples),
            "numbers" if self.labels.regression else f"{self.labels.outputs} classes",
            shape["batches"],
            100 * shape["real_share"],
            ", ".join(map(str, shape["lengths"])),
        )
        return batches

    def training_set(self, reader):
        """The training records, as the ``example`` of a training batch numbers them, for a model to be asked about.

        Args:
            reader: the data of that model's run, which cuts the texts in tokens of its own.
        """
        source, found = self._train_set
        return supervised.Evaluation(source.name, [], found, None, {}, reader._examples(source, found))

    def from_texts(self, texts):
        """Texts to predict; of a pair, both with a tab between them.

        Raises:
            lwt.errors.DataError: a pair without a tab.
        """
        count, texts = len(self.fields), list(texts)
        parts = [text.split("\t", 1) if count == 2 else [text] for text in texts]
        wrong = next((i for i, sides in enumerate(parts) if len(sides) != count), None)
        if wrong is not None:
            raise errors.DataError(f"text {wrong + 1} should be two texts with a tab between: {texts[wrong]!r:.60}")
        sides = [self.tokenizer.encode([self._cleaner.clean(side[i]) for side in parts]) for i in range(count)]
        examples = Examples(tuple(map(tokenized.Ragged.of, sides)), None, self.max_length, self._section.cut)
        return supervised.Evaluation("texts", texts, None, None, {}, examples)

    def example(self):
        """A training batch of zeros: its names, shapes and types."""
        shape = (self._section.rows, self._lengths[0])
        label = np.zeros(shape[0], np.float32 if self.labels.regression else np.int32)
        batch = {name: np.zeros(shape, np.int32) for name in ("ids", "segments")}
        return batch | {"example": np.zeros(shape[0], np.int32), "label": label}

    def _split_settings(self):
        return {"fields": tuple(self._section.fields)}

    def _open(self, name):
        return self._load(name, split="test", fields=splits.needed(self.fields, self._section.label))

    def _examples(self, source, references):
        return Examples(self._tokenize(source), references, self.max_length, self._section.cut)

    def _shown(self, number, record):
        del number
        return "\t".join(splits.texts_of(record, self.fields))

    def _facts(self):
        return {"fields": self.splits.fields}

    def _tokenize(self, source):
        sources.need_fields(source.name, splits.names_in(self.fields), source.fields)
        sides = dataclasses.replace(
            source,
            records=_Sides(source, self.fields),
            fields=tuple(map(str, range(len(self.fields)))),
            fingerprint=sources.digest(source.fingerprint, *self.fields),
        )
        return tokenized.tokenize(
            sides, self.tokenizer, self._cleaner, sides.fields, cache_dir=self._workdir / "tokens"
        )

    def _texts(self):
        source = self.splits.train
        chunks = (source.read(start, start + tokenized.CHUNK) for start in range(0, len(source), tokenized.CHUNK))
        records = itertools.chain.from_iterable(chunks)
        return (side for record in records for side in splits.texts_of(record, self.splits.fields))


@dataclasses.dataclass(frozen=True)
class _Sides(collections.abc.Sequence):
    """The texts of a source's records, under the names "0" and "1"."""

    source: sources.Source
    fields: tuple

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        records = self.source.pick(np.asarray(indices, np.int64)).read(0, len(indices))
        return [dict(zip("01", splits.texts_of(record, self.fields), strict=False)) for record in records]
