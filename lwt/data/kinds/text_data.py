"""What all data of text encoders have in common: the cleaner, the tokenizer, the batches of similar length."""

import abc
import functools
import logging
import os
import pathlib

from lwt import errors
from lwt.data import sources, text, tokenizer
from lwt.data.batches import bucketed

LOG = logging.getLogger(__name__)
TOKENIZER = "tokenizer.model"


class TextData(abc.ABC):
    """The data of a run, by its config's section ``data``; the base of `labelled.Labelled` and `masked.Masked`.

    The tokenizer is the workdir's. A new run makes it: from ``data.tokenizer.path``; else that of the run `base`
    which it starts from (whose weights mean nothing with another one); else it is trained on the training data.

    A kind of data adds `_texts` and `_train_examples`, and what a run calls: `outputs`, `test`, `named`, `training`,
    `evaluation`, `example`.

    Args:
        section: ``config.data``.
        workdir: where the tokenizer and the tokenized data are kept.
        base: workdir of the run that this one starts from, or "".
        seed: of the order of the training data.
        make: whether a missing tokenizer is made; several processes make the same.

    Raises:
        lwt.errors.DataError: no tokenizer, a damaged one, or another one than the run `base` has.
    """

    def __init__(self, section, workdir, *, base="", seed=0, make=True):
        self._section, self._workdir, self._seed = section, pathlib.Path(workdir), seed
        self._cleaner = text.Cleaner(**section.clean)
        self._lengths = bucketed.lengths(section.row_length)
        path = self._workdir / TOKENIZER
        if make and not path.exists():
            self._make_tokenizer(path, base)
        self.tokenizer = tokenizer.of_run(path, base and os.path.join(base, TOKENIZER), specials=tokenizer.ENCODER)

    @property
    def vocabulary(self):
        """Rows of a table of tokens."""
        return self.tokenizer.vocabulary

    @property
    def identity(self):
        """What a checkpoint has to agree on."""
        return {"tokenizer": self.tokenizer.fingerprint}

    @property
    def max_length(self):
        """Tokens of the longest row."""
        return self._section.row_length

    @functools.cached_property
    def positions(self):
        """Positions of a training batch, on average."""
        return self._measured["positions"]

    def batches(self, evaluation, *, process=0, processes=1):
        """Batches of an `Evaluation` (`bucketed.Padded`): the same whenever they are asked for."""
        return bucketed.Padded(
            evaluation.examples,
            rows=self._section.eval_batch,
            lengths=self._lengths,
            process=process,
            processes=processes,
        )

    @functools.cached_property
    def _measured(self):
        return self._bucketed().measure()

    def _bucketed(self, **share):
        return bucketed.Bucketed(
            self._train_examples, rows=self._section.rows, lengths=self._lengths, seed=self._seed, **share
        )

    def _load(self, name, *, load=sources.load, **options):
        if not name:
            raise errors.ConfigError(
                "data.train, data.validation, data.test: one that is needed is empty; it should be KIND:NAME@SPLIT"
            )
        source = load(name, max_malformed=self._section.max_malformed, **options)
        sources.report(source)
        return source

    def _make_tokenizer(self, path, base):
        given = self._section.tokenizer.path or (base and os.path.join(base, TOKENIZER))
        if given:
            tokenizer.copy(given, path, specials=tokenizer.ENCODER)
            return
        LOG.info("training a tokenizer on %s", self._section.train)
        wanted = self._section.tokenizer.vocabulary
        made = tokenizer.train(
            (self._cleaner.clean(line) for line in self._texts()),
            path,
            vocabulary=wanted,
            specials=tokenizer.ENCODER,
            split_digits=self._section.tokenizer.split_digits,
        )
        if made.pieces < wanted:
            LOG.warning("data.tokenizer.vocabulary is %d, but the text yields only %d pieces", wanted, made.pieces)

    @abc.abstractmethod
    def _texts(self):
        """The texts to train a tokenizer on, not yet cleaned."""

    @property
    @abc.abstractmethod
    def _train_examples(self):
        """The training data, as `bucketed.Bucketed` takes it."""
