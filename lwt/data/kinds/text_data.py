"""What all kinds of text have in common: the cleaner, the tokenizer, the token cache, rows of similar length."""

import abc
import functools
import logging
import os

from lwt import errors, files
from lwt.data import sources, text, tokenizer
from lwt.data.batches import bucketed, sharding, tokenized
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
        path = self._workdir / tokenizer.FILE
        base_path = os.path.join(base, tokenizer.FILE) if base else ""
        if make and not path.exists():
            self._make_tokenizer(path, section.tokenizer.path or base_path)
        elif base_path and not path.exists():  # of an adapter alone
            path = base_path
        self.tokenizer = tokenizer.of_run(path, base_path, specials=self.SPECIALS)

    @property
    def vocabulary(self):
        """Rows of the model's table of tokens."""
        return self.tokenizer.vocabulary

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
            LOG.warning("%s: %d texts are longer than the %d tokens of a row and are cut", name, cut, self.longest)
        return self._bucketed(share=share)

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
            raise errors.ConfigError("data.train, data.validation or data.test is empty; it must be KIND:NAME@SPLIT")
        source = load(
            name, max_malformed=self._section.max_malformed, max_megabytes=self._section.max_megabytes, **options
        )
        sources.report(source)
        return source

    def _tokenize(self, source, fields):
        options = {"cleaner": self._cleaner, "fields": fields, "folders": self._token_caches}
        return tokenized.tokenize(source, self.tokenizer, **options)

    def _make_tokenizer(self, path, given):
        if given:
            tokenizer.copy(given, path, specials=self.SPECIALS)
            return
        LOG.info("training a tokenizer on %s", self._section.train)
        wanted = self._section.tokenizer.vocabulary
        options = {"specials": self.SPECIALS, "split_digits": self._section.tokenizer.split_digits}
        made = tokenizer.train(map(self._cleaner.clean, self._texts()), path, vocabulary=wanted, **options)
        if made.pieces < wanted:
            LOG.warning("data.tokenizer.vocabulary is %d, but the text yields only %d pieces", wanted, made.pieces)

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
