"""Running text, from source to batch: the data of a pre-training run."""

import functools

import numpy as np

from lwt import errors
from lwt.data import corpus, sources
from lwt.data.batches import masked_examples
from lwt.data.kinds import common, text_data


class Masked(text_data.TextData):
    """The data of a pre-training run; see `text_data.TextData` and `common.Data`.

    ``data.train`` and ``data.validation`` are running text, or any records with a text (see `corpus`).
    ``data.masking`` is a name of `masked_examples.PRESETS` or the four shares; ``data.join`` is the number of tokens of
    a segment (0: a segment is a line). Training uses the first ``data.max_train_records`` records (0: all).
    """

    @property
    def test(self):
        """The name of the text to evaluate on."""
        return super().test or sources.with_split(self._section.validation, "validation")

    def evaluation(self, name, *, limit=0):
        """The text ``KIND:NAME@SPLIT``, or `limit` pairs of it; there are no references but the text itself."""
        source = self._load(name, load=corpus.load, split="validation")
        examples = self._examples(source, limit=limit)
        return common.Evaluation(source.name, examples, range(len(examples)))

    def from_texts(self, texts):
        """Pre-training answers nothing, so this raises `lwt.errors.ConfigError`."""
        raise errors.ConfigError(f"data.kind={self._section.kind!r}: pre-training gives no answers to texts")

    def example(self):
        count, length = self._section.rows, self._evaluation_lengths()[0]
        places = (count, self._train_examples.masked(length))
        rows = {name: np.zeros((count, length), np.int32) for name in ("ids", "segments")}
        masked = {name: np.zeros(places, np.int32) for name in ("masked_positions", "masked_targets")}
        masked["masked_weights"] = np.zeros(places, np.float32)
        return rows | masked | {"next_sentence": np.zeros(count, np.int32)}

    @functools.cached_property
    def _train_source(self):
        source, limit = self._load(self._section.train, load=corpus.load), self._section.max_train_records
        return source[:limit] if limit else source

    @functools.cached_property
    def _train_examples(self):
        return self._examples(self._train_source, limit=0)

    def _examples(self, source, *, limit):
        if self.frame.mask is None:
            raise errors.ConfigError(f"data.kind='masked': {self.tokenizer.path} has no token for a masked word")
        text = corpus.tokenize(source, self.tokenizer, cleaner=self._cleaner, folders=self._token_caches)
        return masked_examples.MaskedExamples(
            text,
            max_length=self.max_length,
            masking=masked_examples.Masking.of(self._section.masking),
            frame=self.frame,
            pieces=self.tokenizer.pieces,
            join=self._section.join,
            limit=limit,
        )

    def _texts(self):
        return (line for texts, _ in corpus.lines(self._train_source) for line in texts)
