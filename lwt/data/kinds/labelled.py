"""Texts, or pairs of texts, with a label each, from source to batch: the data of a fine-tuning run."""

import collections.abc
import dataclasses
import functools

import numpy as np

from lwt import errors
from lwt.data import formats, inputs, sources, text_fields, tokenizer
from lwt.data.kinds import common, supervised, text_data

UNKNOWN, SAMPLE = 0.05, 1 << 20  # share of unknown ids, of so many, beyond which the log says so


class Labelled(supervised.Supervised, text_data.TextData):
    """The data of a fine-tuning run; see `supervised.Supervised` and `text_data.TextData`.

    ``data.fields`` names one or two text fields; if it is empty, `text_fields.FIELDS` decides. The workdir keeps the
    names of the fields.
    """

    EXTRA_KEYS, UNIT = ("fields",), "records"

    @property
    def identity(self):
        """See `common.Data`: the tokenizer and the labels."""
        return {**super().identity, "set of labels": sources.digest(*self.labels.names)}

    @property
    def fields(self):
        """The text fields of a record, one or two."""
        return tuple(self._labels_file["fields"])

    def training_set(self, reader):
        """The training records as a `common.Evaluation`, in the order of the ``example`` of training batches.

        Args:
            reader: the data of the run whose model is to predict them, which has a tokenizer of its own.
        """
        source, references = self._train_set
        return common.Evaluation(source.name, reader._examples(source, references), range(len(source)), references)

    def from_texts(self, texts):
        """The `common.Evaluation` of texts to predict; the two texts of a pair have a tab between them."""
        count, texts = len(self.fields), inputs.checked(texts)
        for number, text in enumerate(texts, 1):
            try:
                self.check_input(text)
            except errors.DataError as error:
                raise errors.DataError(f"text {number} of {len(texts)}: {error}") from error
        parts = [text.split("\t", 1) if count == 2 else [text] for text in texts]
        sides = tuple(self._encode([part[i] for part in parts]) for i in range(count))
        return common.Evaluation("texts", self._rows(sides, None), texts)

    @property
    def input_fields(self):
        return self.fields

    def check_input(self, text):
        """See `common.Data`; a text needs nothing, and a pair a tab."""
        if len(self.fields) == 2 and "\t" not in text:
            raise errors.DataError(f"there must be two texts with a tab between, not {text!r:.60}")

    def example(self):
        rows = self._section.rows
        shape = (rows, self._evaluation_lengths()[0])
        several = (self.labels.outputs,) if self.labels.separator else ()
        label = np.zeros((rows, *several), np.float32 if self.labels.regression or several else np.int32)
        batch = {name: np.zeros(shape, np.int32) for name in ("ids", "segments")}
        return batch | {"example": np.zeros(rows, np.int32), "label": label}

    @property
    def _needed(self):
        """The fields that no record may leave empty."""
        label = () if self._section.label_separator else (self._section.label,)
        return (*text_fields.required(self.fields), *label)

    @property
    def _train_source(self):
        return self.splits.train

    def _split_settings(self):
        fields = tuple(self._section.fields)
        if len(fields) > 2:
            raise errors.ConfigError(f"data.fields={fields} must name one or two text fields, or none to find them")
        return {"fields": fields, "load": functools.partial(sources.load, max_megabytes=self.max_megabytes)}

    def _load_other(self, name):
        return self._load(name, split="test", fields=self._needed)

    @functools.cached_property
    def _train_examples(self):
        source, references = self._train_set
        sides = self._sides(source)
        self._tell_unknown(source, sides)
        return self._rows(sides, references)

    def _examples(self, source, references):
        return self._rows(self._sides(source), references)

    def _sides(self, source):
        """The tokens of the source's texts; a pair has two sides."""
        sources.need_fields(source.name, text_fields.names_in(self.fields), there=source.fields)
        texts = dataclasses.replace(
            source,
            records=_Sides(source, self.fields),
            fields=tuple(map(str, range(len(self.fields)))),
            fingerprint=sources.digest(source.fingerprint, *self.fields),
        )
        return self._tokenize(texts, texts.fields)

    def _tell_unknown(self, source, sides):
        """Warns of training texts that the tokenizer, which may be that of a base, does not know."""
        share = max(tokenizer.unknown_share(side.values[:SAMPLE], self.tokenizer) for side in sides)
        if share > UNKNOWN:
            what = (
                f"{source.name}: {100 * share:.2g} % of the tokens are unknown to the tokenizer {self.tokenizer.path}"
            )
            formats.tell(f"{what}; a base of the language of the texts, or training from scratch, learns more of them")

    def _rows(self, sides, references):
        return self._labelled(sides, references)

    def _source_text(self, number, record):
        del number
        return "\t".join(text_fields.texts_of(record, self.fields))

    def _extra_values(self):
        return {"fields": self.splits.fields}

    def _texts(self):
        fields = self.splits.fields
        return (text for record in self._train_source.each() for text in text_fields.texts_of(record, fields))


@dataclasses.dataclass(frozen=True)
class _Sides(collections.abc.Sequence):
    """The texts of a source's records, under the names "0" and "1"."""

    source: sources.Source
    fields: tuple

    def __len__(self):
        return len(self.source)

    def where(self, index):
        """The place of a record for an error message."""
        return self.source.where(index)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        records, made = self.source.pick(np.asarray(indices, np.int64)).read(0, len(indices)), []
        for index, record in zip(indices, records, strict=True):
            try:
                made.append(dict(zip("01", text_fields.texts_of(record, self.fields), strict=False)))
            except errors.DataError as error:
                raise errors.DataError(f"{self.source.where(index)}: {error}") from error
        return made
