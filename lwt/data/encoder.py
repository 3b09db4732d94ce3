"""What all data of text encoders have in common: the cleaner, the tokenizer, the lengths of the rows."""

import logging
import os
import pathlib

from lwt import errors
from lwt.data import rows, sources, text, tokenizer

LOG = logging.getLogger(__name__)
TOKENIZER = "tokenizer.model"


class TextData:
    """The data of a run, by its config's section ``data``; the base of `labelled.Labelled` and `masked.Masked`.

    The tokenizer is the workdir's. A new run makes it: from ``data.tokenizer.path``; else that of the run `base`
    which it starts from (whose weights mean nothing with another one); else it is trained on the training data.

    A kind of data adds `_texts`, the texts to train a tokenizer on, not yet cleaned, and what a run calls: `outputs`,
    `test`, `named`, `positions`, `training`, `evaluation`, `batches`, `example`.

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
        self._lengths = rows.lengths(section.row_length)
        path = self._workdir / TOKENIZER
        if make and not path.exists():
            self._make_tokenizer(path, base)
        self.tokenizer = tokenizer.Tokenizer(path, specials=tokenizer.ENCODER)
        if base:
            theirs = tokenizer.Tokenizer(os.path.join(base, TOKENIZER), specials=tokenizer.ENCODER)
            if theirs.fingerprint != self.tokenizer.fingerprint:
                raise errors.DataError(
                    f"{path} is not the tokenizer of {base}, whose weights mean nothing with another one; remove it "
                    "(and data.tokenizer.path), to use that of init_from"
                )

    @property
    def max_length(self):
        """Tokens of the longest row."""
        return self._section.row_length

    def _load(self, name, *, split="train", fields=()):
        if not name:
            raise errors.ConfigError(
                "data.train, data.validation, data.test: one that is needed is empty; it should be KIND:NAME@SPLIT"
            )
        source = sources.load(name, split=split, fields=fields, max_malformed=self._section.max_malformed)
        report(source)
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

    def _texts(self):
        raise NotImplementedError


def report(source):
    """Logs the records that were left out of a source."""
    for message in source.malformed[:3]:
        LOG.warning("left out: %s", message)
    if len(source.malformed) > 3:
        LOG.warning("%s: %d malformed records left out", source.name, len(source.malformed))
