"""What all kinds of text have in common: the cleaner, the tokenizer, the token cache, rows of similar length."""

import abc
import functools
import logging
import os

from lwt import errors, files
from lwt.data import inputs, sources, text, tokenizer, tokenizer_files
from lwt.data.batches import bucketed, labelled_examples, sharding, tokenized
from lwt.data.kinds import common

LOG = logging.getLogger(__name__)


class TextData(common.Data):
    """The base of `pairs.Pairs`, `labelled.Labelled` and `masked.Masked`.

    The workdir keeps the tokenizer. A new run copies it from ``data.tokenizer.path``, or else from the run `base`,
    whose weights fit no other tokenizer; without either, it trains one on the training data.

    Raises:
        lwt.errors.DataError: the tokenizer is missing or damaged, or is not that of the run `base`.
    """

    SPECIALS, UNIT = tokenizer.ENCODER, "pairs"

    def __init__(self, section, workdir, *, base="", seed=0, make=True):
        super().__init__(section, workdir, base=base, seed=seed, make=make)
        self._cleaner = text.Cleaner(**section.clean)
        if make and not os.path.exists(tokenizer_files.path_in(self._workdir)):
            self._make_tokenizer(section.tokenizer.path or (base and tokenizer_files.path_in(base)))
        self.tokenizer = tokenizer_files.of_run(self._workdir, base, specials=self.SPECIALS)
        if self.tokenizer.cleans:
            self._cleaner = text.AsIs.of(section.clean, where=self.tokenizer.path)

    @property
    def vocabulary(self):
        """Rows of the model's table of tokens."""
        return self.tokenizer.vocabulary

    @property
    def frame(self):
        """The special tokens around the texts of a row; see `frame.Frame`."""
        return self.tokenizer.frame

    @property
    def identity(self):
        """See `common.Data`: the tokenizer."""
        return {"tokenizer": self.tokenizer.fingerprint}

    @property
    def max_length(self):
        """Tokens of the longest row."""
        return self._section.row_length

    @property
    def positions(self):
        return self._measured["positions"]

    def training(self, *, share=sharding.WHOLE):
        """Endless `bucketed.BucketedBatches` of the training data."""
        measured, name = self._measured, self._train_source.name
        LOG.info(
            "%s: %d %s, %.1f batches per epoch, %.1f tokens each, %.1f %% of the positions are real, rows of %s",
            name,
            len(self._train_examples),
            self.UNIT,
            measured["batches"],
            measured["tokens"] / self._section.rows,
            100 * measured["real_share"],
            ", ".join(map(str, measured["lengths"])),
        )
        if cut := self._train_examples.too_long(self.longest):
            LOG.warning("%s: texts longer than the %d tokens of a row, which are cut: %d", name, self.longest, cut)
        return self._bucketed(share=share)

    def alone(self, texts):
        """The `common.Evaluation` of single texts as rows of a text encoder, whatever texts a record has."""
        texts = inputs.checked(texts)
        return common.Evaluation("texts", self._labelled((self._encode(texts),), None), texts)

    def _encode(self, texts, encoder=None):
        """Texts as ids, a `tokenized.RaggedArray`; `encoder` is that of a side, None for the tokenizer."""
        encoder = encoder or self.tokenizer
        return tokenized.RaggedArray.of(encoder.encode([self._cleaner.clean(text) for text in texts]))

    def _labelled(self, sides, references, *, kind=labelled_examples.LabelledExamples):
        """The rows of a text encoder, with their references or None."""
        return kind(sides, references, max_length=self.max_length, frame=self.frame, cut=self._section.cut)

    def _evaluation_lengths(self):
        return bucketed.bucket_lengths(self._section.row_length)

    def _bucketed(self, **share):
        rows, lengths = self._section.rows, bucketed.bucket_lengths(self._section.row_length)
        return bucketed.BucketedBatches(self._train_examples, rows=rows, lengths=lengths, seed=self._seed, **share)

    @functools.cached_property
    def _measured(self):
        return self._bucketed().measure()

    @property
    def _token_caches(self):
        return self._workdir / "tokens", files.cache_folder() / "tokens"  # a colleague's run cannot be written

    def _load(self, name, *, load=sources.load, **options):
        if not name:
            empty = [f"data.{key}" for key in ("train", "validation", "test") if not self._section[key]]
            raise errors.ConfigError(f"empty, but must be KIND:NAME@SPLIT: {', '.join(empty)}")
        source = load(name, max_malformed=self._section.max_malformed, max_megabytes=self.max_megabytes, **options)
        sources.report(source)
        return source

    def _tokenize(self, source, fields, *, sides=None):
        options = {"cleaner": self._cleaner, "fields": fields, "folders": self._token_caches, "sides": sides}
        return tokenized.tokenize(source, self.tokenizer, **options)

    def _make_tokenizer(self, given):
        if given:
            tokenizer_files.copy(given, self._workdir, specials=self.SPECIALS)
            return
        LOG.info("training a tokenizer on %s", self._section.train)
        wanted = self._section.tokenizer.vocabulary
        options = {"specials": self.SPECIALS, "split_digits": self._section.tokenizer.split_digits}
        path, texts = self._workdir / tokenizer.FILE, map(self._cleaner.clean, self._texts())
        made = tokenizer.train(texts, path, vocabulary=wanted, **options)
        if made.pieces < wanted:
            LOG.info(
                "its vocabulary has %d pieces, all that these texts yield; data.tokenizer.vocabulary=%d is the most",
                *(made.pieces, wanted),
            )

    @abc.abstractmethod
    def _texts(self):
        """The texts to train a tokenizer on, before cleaning."""

    @property
    @abc.abstractmethod
    def _train_source(self):
        """The training data, a `sources.Source`."""

    @property
    @abc.abstractmethod
    def _train_examples(self):
        """The training data, an `examples.Examples`."""
