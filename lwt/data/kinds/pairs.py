"""Text pairs from source to batch: what a sequence-to-sequence run reads."""

import dataclasses
import functools
import itertools
import logging
import os
import pathlib

import numpy as np

from lwt import errors
from lwt.data import sources, text, tokenizer
from lwt.data.batches import bucketed, packed, pair_examples

LOG = logging.getLogger(__name__)
TOKENIZER = "tokenizer.model"
KEYS = tuple(f"{side}_{what}" for side in ("source", "target") for what in ("segments", "positions")) + (
    "source",
    "inputs",
    "targets",
)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A set to evaluate on, or to predict.

    Attributes:
        name: ``KIND:NAME@SPLIT``.
        sources: raw texts.
        references: raw texts, or None to predict.
        groups: the kind of each record (its field ``task``), or None.
        source_ids, target_ids: `packed.Ragged`; no targets to predict.
    """

    name: str
    sources: list
    references: list | None
    groups: list | None
    source_ids: packed.Ragged
    target_ids: packed.Ragged | None


class Pairs:
    """The data of a run, by its config's section ``data``.

    The tokenizer is the workdir's. A new run makes it: from ``data.tokenizer.path``; else that of the run `base`
    which it starts from (whose weights mean nothing with another one); else it is trained on the training data.

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
        path = self._workdir / TOKENIZER
        if make and not path.exists():
            self._make_tokenizer(path, base)
        self.tokenizer = tokenizer.of_run(path, base and os.path.join(base, TOKENIZER))

    outputs = 0  # of a classifier: there is none

    @property
    def test(self):
        """The name of the test set."""
        return self._section.test

    def named(self, split):
        """The name of a split of the test set; "validation" and "test" (or "") are those of the config."""
        configured = {"": self.test, "test": self.test, "validation": self._section.validation}
        return configured.get(split) or sources.at(self.test, split)

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
        """Longest row of an evaluation, end mark included."""
        return self._section.max_tokens + 1

    @property
    def positions(self):
        """Positions of a training batch, both sides together: on average, where batches differ."""
        if self._section.packed:
            return 2 * self._section.rows * self._section.row_length
        return 2 * bucketed.Bucketed(self._pair_rows, **self._bucketed).measure()["positions"]

    def training(self, *, process=0, processes=1):
        """Endless training batches: `packed.PackedPairs`, or `bucketed.Bucketed` ones of a pair a row."""
        section = self._section
        if section.packed:
            batches = packed.PackedPairs(
                *self._tokenize(self._train_source),
                rows=section.rows,
                row_length=section.row_length,
                min_tokens=section.min_tokens,
                max_tokens=section.max_tokens,
                seed=self._seed,
                process=process,
                processes=processes,
            )
            pairs, left_out = batches.pairs, batches.left_out
        else:
            batches = bucketed.Bucketed(self._pair_rows, **self._bucketed, process=process, processes=processes)
            pairs, left_out = len(self._pair_rows), self._pair_rows.left_out
        shape = batches.measure()
        LOG.info(
            "%s: %d pairs (left out: %s), %.1f batches an epoch, %.1f pairs a batch, %.1f %% of the %s is real",
            self._train_source.name,
            pairs,
            ", ".join(f"{count} {why}" for why, count in left_out.items() if count) or "none",
            shape["batches"],
            pairs / shape["batches"],
            100 * (shape["target_share"] if section.packed else shape["real_share"]),
            "target" if section.packed else "longer sides",
        )
        return batches

    def evaluation(self, name, *, limit=0):
        """The set named ``KIND:NAME@SPLIT``; `limit` records of it, drawn once, if that is not 0."""
        source = self._load(name).subset(limit)
        fields = self._section.fields
        source_ids, target_ids = self._tokenize(source)
        records = source.read(0, len(source))
        return Evaluation(
            name=source.name,
            sources=[record[fields[0]] for record in records],
            references=[record[fields[1]] for record in records],
            groups=[record["task"] for record in records] if "task" in source.fields else None,
            source_ids=source_ids,
            target_ids=target_ids,
        )

    def from_texts(self, texts):
        """Source texts to predict."""
        ids = self.tokenizer.encode([self._cleaner.clean(t) for t in texts])
        return Evaluation("texts", texts, None, None, packed.Ragged.of(ids), None)

    def batches(self, evaluation, *, process=0, processes=1):
        """Padded batches of an `Evaluation` (`packed.PaddedBatches`)."""
        return packed.padded_batches(
            evaluation.source_ids,
            evaluation.target_ids,
            batch=self._section.eval_batch,
            max_length=self.max_length,
            process=process,
            processes=processes,
        )

    def example(self):
        """A training batch of zeros, for its shapes."""
        shape = (self._section.rows, self._section.row_length)
        return {key: np.zeros(shape, np.int32) for key in KEYS}

    @functools.cached_property
    def _train_source(self):
        return self._load(self._section.train).subset(self._section.max_train_records)

    @functools.cached_property
    def _pair_rows(self):
        section = self._section
        longest = min(section.max_tokens, section.row_length - 1)
        sides = self._tokenize(self._train_source)
        return pair_examples.PairRows(*sides, min_tokens=section.min_tokens, max_tokens=longest)

    @property
    def _bucketed(self):
        section = self._section
        return {"rows": section.rows, "lengths": bucketed.lengths(section.row_length), "seed": self._seed}

    def _load(self, name):
        if not name:
            raise errors.ConfigError(
                "data.train, data.validation, data.test: one that is needed is empty; it should be KIND:NAME@SPLIT"
            )
        section = self._section
        source = sources.load(name, fields=section.fields, max_malformed=section.max_malformed)
        sources.report(source)
        return source

    def _tokenize(self, source):
        return packed.tokenize(
            source, self.tokenizer, self._cleaner, self._section.fields, cache_dir=self._workdir / "tokens"
        )

    def _make_tokenizer(self, path, base):
        given = self._section.tokenizer.path or (base and os.path.join(base, TOKENIZER))
        if given:
            tokenizer.copy(given, path)
            return
        LOG.info("training a tokenizer on %s", self._train_source.name)
        source, fields = self._train_source, self._section.fields
        records = itertools.chain.from_iterable(
            source.read(start, start + packed.CHUNK) for start in range(0, len(source), packed.CHUNK)
        )
        tokenizer.train(
            (self._cleaner.clean(record[field]) for record in records for field in fields),
            path,
            vocabulary=self._section.tokenizer.vocabulary,
            split_digits=self._section.tokenizer.split_digits,
        )
