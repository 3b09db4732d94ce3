"""What all data with a label for each record have in common: the parts, the labels, the sets to evaluate on."""

import abc
import functools
import logging
import os

import numpy as np

from lwt import errors, files
from lwt.data import labels, sources, splits
from lwt.data.kinds import common

LOG = logging.getLogger(__name__)
SHOWN = 8  # names of labels in a message


class Supervised(common.Data):
    """The base of `labelled.Labelled` and `images.Images`.

    ``data.train`` is ``KIND:NAME``; the rule of `splits` finds its parts. ``data.validation`` and ``data.test`` (one
    name or several) replace what the rule finds. ``data.label`` is the field of the label. The workdir keeps the
    indices of the splits and the names of the classes: predicting needs no data.
    """

    EXTRA_KEYS = ()  # what the file of labels holds beside the names, as lists; see `_extra_values`

    @functools.cached_property
    def splits(self):
        """The `splits.Splits` of the training data, made once per workdir; see `splits.make`."""
        section = self._section
        if not section.train:  # an imported model
            raise errors.DataError(
                f"{self._workdir} has no data of its own; name a set, such as --data=folder:PATH@test"
            )
        parts = splits.make(
            section.train,
            self._workdir / splits.FILE,
            validation=section.validation,
            tests=tuple(filter(None, self._own_names)),
            label=section.label,
            unlabelled=bool(section.label_separator),
            leak_free=section.leak_free,
            max_malformed=section.max_malformed,
            **self._split_settings(),
        )
        for source in (parts.train, parts.validation, *parts.tests.values()):
            sources.report(source)
        return parts

    def taken(self):
        return str(self.splits)

    @property
    def labels(self):
        """The `labels.Labels` that the source declares (``labels.txt``, a builder); else those of the training data."""
        return labels.Labels(tuple(self._labels_file["names"]), self._section.label_separator)

    @property
    def outputs(self):
        """Outputs of the classifier: one for each class, or one for a number."""
        return self.labels.outputs

    @property
    def test(self):
        """The name of the test part; of several, the first."""
        return next(iter(self.splits.tests), "validation")

    def named(self, split):
        """The name of a split for `evaluation`; "test" (or "") is the test part."""
        return self.test if split in ("", "test") else split

    def evaluation(self, name="validation", *, limit=0):
        """The part "train", "validation" (or ""), "test" or another test part, or the set ``KIND:NAME@SPLIT``.

        Raises:
            lwt.errors.DataError: there is no such part, or none of its labels is among the classes.
        """
        name = "validation" if name in ("", self._section.validation) else name
        parts = {}
        if ":" not in name or name in self._own_names:
            parts = {"train": self.splits.train, "validation": self.splits.validation, **self.splits.tests}
        if name in parts:
            source = parts[name]
        elif ":" in name:
            source = self._load_other(name)
        else:
            hint = f"that file is folder:{name}" if os.path.exists(name) else errors.suggest(name, parts)
            raise errors.DataError(f"{self.splits.train.name} has no part {name!r}; {hint}")
        source = source.subset(limit)
        records = source.read(0, len(source))
        sources.need_fields(source.name, [self._section.label], there=source.fields)
        values = [record[self._section.label] for record in records]
        references, unknown = self.labels.encode(values, where=source.where)
        if unknown:
            known = self.labels.known(references)
            message = self._about_unknown(source, unknown, count=int((~known).sum()))
            if not known.any():
                raise errors.DataError(message)
            LOG.warning("%s; they count as wrong", message)
        examples, groups = self._examples(source, references), common.groups_of(source, records)
        texts = [self._source_text(number, record) for number, record in enumerate(records)]
        return common.Evaluation(source.name, examples, texts, references, groups)

    @property
    def _own_names(self):
        """The names of sources that the config gives to its test parts."""
        tests = self._section.test
        return (tests,) if isinstance(tests, str) else tuple(tests)

    def answers(self, outputs):
        """The labels, as texts, of a model's outputs or of an evaluation's references."""
        return self.labels.decode(outputs)

    def class_counts(self):
        """``(counts, records)``: the number of training records of each class, `[c]`, and of all."""
        return self.labels.counts(self.training_references), len(self.training_references)

    @property
    def training_references(self):
        """The classes or numbers of the training records, `[n]`."""
        return self._train_set[1]

    @functools.cached_property
    def _train_values(self):
        return [record[self._section.label] for record in self.splits.train.each()]

    @functools.cached_property
    def _labels_file(self):
        """The names of the classes and the `EXTRA_KEYS`, as the workdir keeps them; written if the file is missing."""
        path = self._workdir / labels.FILE
        if not path.exists():
            files.write_json(
                path, {"names": self._train_labels.names, **self._extra_values()}, indent=None, checked=True
            )
        try:
            content = files.read_json(path)
            return {key: [*content[key]] for key in ("names", *self.EXTRA_KEYS)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise errors.DataError(f"{path} is damaged ({error}); remove it to have it written again") from error

    @functools.cached_property
    def _train_labels(self):
        train = self.splits.train
        more = {"names": self.declared_classes, "separator": self._section.label_separator}
        return labels.Labels.of(self._train_values, where=train.name, **more)

    @property
    def declared_classes(self):
        """The names of the classes that the source declares, in order; () if it declares none for ``data.label``."""
        return self.splits.train.classes if self._section.label == "label" else ()

    @functools.cached_property
    def _train_examples(self):
        return self._examples(*self._train_set)

    @functools.cached_property
    def _train_set(self):
        """``(source, references)``: the training records with a known label, and their classes or numbers."""
        source = self.splits.train
        if not self.labels.regression and not self.labels.is_of(self._train_labels):
            raise errors.DataError(
                f"{self._workdir / labels.FILE} has other labels than {source.name}; put back the labels of the run, "
                "or use another --workdir"
            )
        references, unknown = self.labels.encode(self._train_values, where=source.where)
        if unknown:
            known = self.labels.known(references)
            message = self._about_unknown(source, unknown, count=int((~known).sum()))
            if (~known).sum() > self._section.max_malformed * len(references):
                raise errors.DataError(message)
            LOG.warning("%s; they are left out", message)
            source, references = source.pick(np.flatnonzero(known)), references[known]
        counts = np.ones(1) if self.labels.regression else self.labels.counts(references)
        for i in np.flatnonzero(counts == 0):
            LOG.warning("%s: no training record has the label %r", source.name, self.labels.names[i])
        limit = self._section.max_train_records
        if 0 < limit < len(source):
            chosen = np.sort(np.random.default_rng(0).permutation(len(source))[:limit])
            source, references = source.pick(chosen), references[chosen]
        return source, references

    def _about_unknown(self, source, unknown, *, count):
        shown = ", ".join(f"{label!r} ({count})" for label, count in unknown.most_common(SHOWN))
        names = ", ".join(self.labels.names[:SHOWN]) + (", ..." if len(self.labels.names) > SHOWN else "")
        return (
            f"{source.name}: {count} of {len(source)} records have labels outside the "
            f"{self.labels.outputs} classes ({names}): {shown}{', ...' if len(unknown) > SHOWN else ''}"
        )

    @abc.abstractmethod
    def _split_settings(self):
        """Further arguments of `splits.make`, a dict."""

    @abc.abstractmethod
    def _load_other(self, name):
        """The source ``KIND:NAME@SPLIT`` of a set that is not the run's own."""

    @abc.abstractmethod
    def _examples(self, source, references):
        """The `examples.Examples` of a source, with the classes or numbers [n] of its records."""

    @abc.abstractmethod
    def _source_text(self, number, record):
        """The text that a report shows of a record."""

    @abc.abstractmethod
    def _extra_values(self):
        """A list for each of `EXTRA_KEYS`, for JSON."""
