"""Texts, or pairs of texts, with a label each, from source to batch: what a text encoder is fine-tuned on."""

import collections.abc
import dataclasses
import functools
import hashlib
import itertools
import json
import logging
import os

import numpy as np

from lwt import errors
from lwt.data import encoder, labels, ragged, rows, sources, splits

LOG = logging.getLogger(__name__)
SPLITS = "splits.json"
LABELS = "labels.json"
SHOWN = 8  # names of labels in a message


@dataclasses.dataclass(frozen=True)
class Examples:
    """Rows of tokenized texts with their labels, for `rows.Bucketed` and `rows.Padded`.

    Attributes:
        sides: one or two `ragged.Ragged`.
        labels: [n] int32 classes or float32 numbers; None to predict.
        max_length: tokens of a row; longer ones are cut, the longer text of a pair first.
    """

    sides: tuple
    labels: np.ndarray | None
    max_length: int

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
        kept = rows.truncate(whole[0], whole[1] if len(whole) == 2 else np.zeros_like(whole[0]), limit)
        return {
            "record": records,
            "size": np.stack(kept, axis=1),
            "length": sum(kept) + 1 + len(whole),
            "cut": sum(whole) > limit,
        }

    def batch(self, drawn, length, uniform):
        """``ids``, ``segments`` [n length] int32 and, if there are labels, ``label`` [n]."""
        del uniform
        records = drawn["record"]
        texts = [(side.values, side.offsets[records], drawn["size"][:, i]) for i, side in enumerate(self.sides)]
        ids, segments = rows.assemble(texts, length)
        return {"ids": ids, "segments": segments} | ({} if self.labels is None else {"label": self.labels[records]})


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A set to evaluate on, or to predict.

    Attributes:
        name: ``KIND:NAME@SPLIT``.
        sources: the raw text of each record; the two of a pair with a tab between.
        references: [n] classes (-1: a label that training did not know) or numbers; None to predict.
        groups: the kind of each record (its field ``task``), or None.
        unknown: label -> records that have it, of labels that are no class of the training data.
        examples: `Examples`.
    """

    name: str
    sources: list
    references: np.ndarray | None
    groups: list | None
    unknown: dict
    examples: Examples


class Labelled(encoder.TextData):
    """The data of a fine-tuning run, by its config's section ``data``; see `encoder.TextData`.

    ``data.train`` is ``KIND:NAME``, and its parts are found by the rule of `splits`; ``data.validation`` and
    ``data.test`` (a name, or several) replace what the rule finds. ``data.fields`` names one or two text fields, or is
    empty: see `splits.FIELDS`. ``data.label`` names the label; for ``data.leak_free`` see `splits.make`.

    The workdir keeps the indices of the splits, and what the labels and the fields are called: to predict, no data is
    needed.
    """

    @functools.cached_property
    def splits(self):
        """Made once a workdir; see `splits.make`."""
        section = self._section
        tests = (section.test,) if isinstance(section.test, str) else tuple(section.test)
        found = splits.make(
            section.train,
            self._workdir / SPLITS,
            validation=section.validation,
            tests=tuple(filter(None, tests)),
            fields=tuple(section.fields),
            label=section.label,
            leak_free=section.leak_free,
            max_malformed=section.max_malformed,
        )
        LOG.info("%s", found)
        for source in (found.train, found.validation, *found.tests.values()):
            sources.report(source)
        return found

    @property
    def labels(self):
        """`labels.Labels`: from ``labels.txt`` (or what a builder tells), else from the training data."""
        return labels.Labels(tuple(self._kept["names"]))

    @property
    def fields(self):
        """The text fields of a record, one or two."""
        return tuple(self._kept["fields"])

    @property
    def outputs(self):
        """Outputs that a model needs: one for each class, or one number."""
        return self.labels.outputs

    @property
    def test(self):
        """The name of the test part; the first, if there are several."""
        return next(iter(self.splits.tests), "validation")

    def named(self, split):
        """What `evaluation` calls a split; "test" (or "") is the test part."""
        return self.test if split in ("", "test") else split

    def training(self, *, process=0, processes=1):
        """Endless batches (`rows.Bucketed`) of the training part."""
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

    def evaluation(self, name="validation", *, limit=0):
        """The part "validation" (also ""), "test" or another of ``splits.tests``, or the set ``KIND:NAME@SPLIT``.

        Args:
            limit: so many records of it, drawn once; 0: all.

        Raises:
            lwt.errors.DataError: no such part; or no label of it is one of the training data.
        """
        parts = {"train": self.splits.train, "validation": self.splits.validation, **self.splits.tests}
        name = "validation" if name in ("", self._section.validation) else name
        if name in parts:
            source = parts[name]
        elif ":" in name:
            source = self._load(name, split="test", fields=splits.needed(self.fields, self._section.label))
        else:
            raise errors.DataError(f"{self.splits.train.name} has no part {name!r}; {errors.suggest(name, parts)}")
        source = source.subset(limit)
        records = source.read(0, len(source))
        sources.need_fields(source.name, [self._section.label], source.fields)
        values = [record[self._section.label] for record in records]
        references, unknown = self.labels.encode(values, where=source.name)
        if unknown:
            message = self._about_unknown(source, unknown)
            if unknown.total() == len(values):
                raise errors.DataError(message)
            LOG.warning("%s; they count as wrong", message)
        return Evaluation(
            name=source.name,
            sources=["\t".join(splits.texts_of(record, self.fields)) for record in records],
            references=references,
            groups=[record["task"] for record in records] if "task" in source.fields else None,
            unknown=dict(unknown),
            examples=Examples(self._tokenize(source), references, self.max_length),
        )

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
        examples = Examples(tuple(map(ragged.Ragged.of, sides)), None, self.max_length)
        return Evaluation("texts", texts, None, None, {}, examples)

    def answers(self, outputs):
        """Labels, as texts, of a model's outputs or of an evaluation's references."""
        return self.labels.decode(outputs)

    def example(self):
        """A training batch of zeros: its names, shapes and types."""
        shape = (self._section.rows, self._lengths[0])
        label = np.zeros(shape[0], np.float32 if self.labels.regression else np.int32)
        return {"ids": np.zeros(shape, np.int32), "segments": np.zeros(shape, np.int32), "label": label}

    @functools.cached_property
    def _train_values(self):
        source, label = self.splits.train, self._section.label
        return [record[label] for record in source.read(0, len(source))]

    @functools.cached_property
    def _kept(self):
        """What labels and fields are called, as the workdir has it."""
        path = self._workdir / LABELS
        if not path.exists():
            self._keep(path)
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            return {"names": [*kept["names"]], "fields": [*kept["fields"]]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise errors.DataError(f"{path} is damaged ({error!r:.80}); remove it, and it is written anew") from error

    def _keep(self, path):
        train = self.splits.train
        found = labels.Labels.of(self._train_values, names=train.classes, where=train.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps({"names": found.names, "fields": self.splits.fields}), encoding="utf-8")
        part.replace(path)

    @functools.cached_property
    def _train_examples(self):
        source = self.splits.train
        if labels.Labels.of(self._train_values, names=source.classes, where=source.name) != self.labels:
            raise errors.DataError(f"{self._workdir / LABELS} has other labels than {source.name}; remove it")
        found, unknown = self.labels.encode(self._train_values, where=source.name)
        if unknown:
            message = self._about_unknown(source, unknown)
            if unknown.total() > self._section.max_malformed * len(found):
                raise errors.DataError(message)
            LOG.warning("%s; they are left out", message)
            source, found = source.pick(np.flatnonzero(found >= 0)), found[found >= 0]
        counts = np.ones(1) if self.labels.regression else np.bincount(found, minlength=self.labels.outputs)
        for i in np.flatnonzero(counts == 0):
            LOG.warning("%s: no training record has the label %r", source.name, self.labels.names[i])
        limit = self._section.max_train_records
        if 0 < limit < len(source):
            chosen = np.sort(np.random.default_rng(0).permutation(len(source))[:limit])
            source, found = source.pick(chosen), found[chosen]
        return Examples(self._tokenize(source), found, self.max_length)

    def _about_unknown(self, source, unknown):
        shown = ", ".join(f"{label!r} ({count})" for label, count in unknown.most_common(SHOWN))
        names = ", ".join(self.labels.names[:SHOWN]) + (", ..." if len(self.labels.names) > SHOWN else "")
        return (
            f"{source.name}: {unknown.total()} of {len(source)} records have labels that are none of the "
            f"{self.labels.outputs} classes ({names}): {shown}{', ...' if len(unknown) > SHOWN else ''}"
        )

    def _tokenize(self, source):
        sources.need_fields(source.name, splits.names_in(self.fields), source.fields)
        sides = dataclasses.replace(
            source,
            records=_Sides(source, self.fields),
            fields=tuple(map(str, range(len(self.fields)))),
            fingerprint=sources.digest(source.fingerprint, *self.fields),
        )
        return ragged.tokenize(sides, self.tokenizer, self._cleaner, sides.fields, cache_dir=self._workdir / "tokens")

    def _texts(self):
        source = self.splits.train
        chunks = (source.read(start, start + ragged.CHUNK) for start in range(0, len(source), ragged.CHUNK))
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
