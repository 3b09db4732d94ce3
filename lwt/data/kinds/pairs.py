"""Text pairs, from source to batch: the data of a sequence-to-sequence run."""

import functools
import logging

import numpy as np

from lwt import errors
from lwt.data import inputs, tokenizer
from lwt.data.batches import packed, pair_examples, sharding
from lwt.data.kinds import common, text_data

LOG = logging.getLogger(__name__)
MULTIPLE = 16  # rows of an evaluation are padded to multiples of it


class Pairs(text_data.TextData):
    """The data of a run on text pairs; see `text_data.TextData` and `common.Data`.

    ``data.fields`` names the two texts of a record. With ``data.packed``, a training row holds several pairs; else one.
    Where targets are much shorter than sources, ``data.target_row_length`` keeps their side from being mostly padding.
    """

    SPECIALS = tokenizer.SEQ2SEQ

    def __init__(self, section, workdir, **options):
        if len(section.fields) != 2:
            raise errors.ConfigError(
                f"data.fields={tuple(section.fields)} must name two fields: those of the source and of the target"
            )
        if section.target_row_length and not section.packed:
            raise errors.ConfigError(
                f"data.target_row_length={section.target_row_length} is for packed rows; with data.packed=False it is 0"
            )
        super().__init__(section, workdir, **options)

    @property
    def _lengths(self):
        """Tokens of both sides of a training row."""
        return self._section.row_length, self._section.target_row_length or self._section.row_length

    @property
    def max_length(self):
        """Tokens of the longest side of an evaluation, with its end mark."""
        return self._section.max_tokens + 1

    @property
    def positions(self):
        return self._section.rows * sum(self._lengths) if self._section.packed else 2 * self._measured["positions"]

    def training(self, *, share=sharding.WHOLE):
        """Endless training batches: `packed.PackedBatches`, or `bucketed.BucketedBatches` with one pair to a row."""
        section, examples, name = self._section, self._train_examples, self._train_source.name
        for why, count in examples.left_out.items():
            if count:
                LOG.info("%s: %d pairs are left out: %s", name, count, why)
        if not section.packed:
            return super().training(share=share)
        row_length, target_row_length = self._lengths
        shape = dict(rows=section.rows, row_length=row_length, target_row_length=target_row_length)
        batches = packed.PackedBatches(examples, seed=self._seed, share=share, **shape)
        measured = batches.measure()
        shares = [100 * measured[f"{side}_share"] for side in ("source", "target")]
        LOG.info(
            "%s: %d pairs, %.1f batches per epoch, %.1f %% of the source positions and %.1f %% of the target positions "
            "are real",
            *(name, len(examples), measured["batches"], *shares),
        )
        return batches

    def evaluation(self, name, *, limit=0):
        """The pairs of ``KIND:NAME@SPLIT``; see `common.Data.evaluation`."""
        source = self._load(name, split="test", fields=self._section.fields).subset(limit)
        records = source.read(0, len(source))
        texts, references = ([record[field] for record in records] for field in self._section.fields)
        examples = pair_examples.PairExamples.of_all(*self._tokenize_pairs(source))
        return common.Evaluation(source.name, examples, texts, references, common.groups_of(source, records))

    def from_texts(self, texts, targets=None):
        """The `common.Evaluation` of source texts to predict; `targets`, if given, are what the decoder reads."""
        texts = inputs.checked(texts)
        given = [side for side in (texts, targets) if side is not None]
        sides = [self._encode(side, encoder) for side, encoder in zip(given, self.tokenizer.sides)]
        return common.Evaluation("texts", pair_examples.PairExamples.of_all(*sides), texts)

    @property
    def input_fields(self):
        return self._section.fields[:1]

    def example(self):
        shapes = pair_examples.shapes(self._section.rows, lengths=self._lengths)
        return {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}

    @functools.cached_property
    def _train_source(self):
        return self._load(self._section.train, fields=self._section.fields).subset(self._section.max_train_records)

    @functools.cached_property
    def _train_examples(self):
        section = self._section
        return pair_examples.PairExamples.fitting(
            *self._tokenize_pairs(self._train_source),
            min_tokens=section.min_tokens,
            max_tokens=[min(section.max_tokens, length - 1) for length in self._lengths],
        )

    def _evaluation_lengths(self):
        return range(MULTIPLE, self.max_length + MULTIPLE, MULTIPLE)

    def _tokenize_pairs(self, source):
        return self._tokenize(source, self._section.fields, sides=self.tokenizer.sides)

    def _texts(self):
        return (record[field] for record in self._train_source.each() for field in self._section.fields)
