"""What all data with a label for each record have in common: the parts, the labels, the sets to evaluate on."""

import abc
import collections.abc
import dataclasses
import functools
import json
import logging
import os

import numpy as np

from lwt import errors
from lwt.data import labels, sources, splits

LOG = logging.getLogger(__name__)
SPLITS = "splits.json"
LABELS = "labels.json"
SHOWN = 8  # names of labels in a message


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A set to evaluate on, or to predict.

    Attributes:
        name: ``KIND:NAME@SPLIT``.
        sources: what stands for each record in a report: a raw text (the two of a pair with a tab between), the file of
            an image.
        references: [n] classes (-1: a label that training did not know) or numbers; None to predict.
        groups: the kind of each record (its field ``task``), or None.
        unknown: label -> records that have it, of labels that are no class of the training data.
        examples: what `rows.Padded` makes batches of.
    """

    name: str
    sources: list
    references: np.ndarray | None
    groups: list | None
    unknown: dict
    examples: collections.abc.Sized


class Supervised(abc.ABC):
    """Parts and labels of the data of a run; the base of `labelled.Labelled` and `images.Images`.

    ``data.train`` is ``KIND:NAME``, and its parts are found by the rule of `splits`; ``data.validation`` and
    ``data.test`` (a name, or several) replace what the rule finds. ``data.label`` names the label; for
    ``data.leak_free`` see `splits.make`.

    The workdir keeps the indices of the splits, and what the labels are called: to predict, no data is needed.

    A kind of data sets `_section` (``config.data``) and `_workdir`, and adds the abstract methods.
    """

    FACTS = ()  # names of what else the workdir keeps of the training data, lists all; see `_facts`

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
            label=section.label,
            leak_free=section.leak_free,
            max_malformed=section.max_malformed,
            **self._split_settings(),
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
            source = self._open(name)
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
            sources=[self._shown(number, record) for number, record in enumerate(records)],
            references=references,
            groups=[record["task"] for record in records] if "task" in source.fields else None,
            unknown=dict(unknown),
            examples=self._examples(source, references),
        )

    def answers(self, outputs):
        """Labels, as texts, of a model's outputs or of an evaluation's references."""
        return self.labels.decode(outputs)

    @functools.cached_property
    def _train_values(self):
        source, label = self.splits.train, self._section.label
        return [record[label] for record in source.read(0, len(source))]

    @functools.cached_property
    def _kept(self):
        """What labels are called, and the `FACTS`, as the workdir has it."""
        path = self._workdir / LABELS
        if not path.exists():
            self._keep(path)
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            return {name: [*kept[name]] for name in ("names", *self.FACTS)}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise errors.DataError(f"{path} is damaged ({error!r:.80}); remove it, and it is written anew") from error

    def _keep(self, path):
        train = self.splits.train
        found = labels.Labels.of(self._train_values, names=train.classes, where=train.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps({"names": found.names, **self._facts()}), encoding="utf-8")
        part.replace(path)

    @functools.cached_property
    def _train_examples(self):
        return self._examples(*self._train_set)

    @functools.cached_property
    def _train_set(self):
        """The training records that are learnt from, and their labels as `_examples` takes them."""
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
        return source, found

    def _about_unknown(self, source, unknown):
        shown = ", ".join(f"{label!r} ({count})" for label, count in unknown.most_common(SHOWN))
        names = ", ".join(self.labels.names[:SHOWN]) + (", ..." if len(self.labels.names) > SHOWN else "")
        return (
            f"{source.name}: {unknown.total()} of {len(source)} records have labels that are none of the "
            f"{self.labels.outputs} classes ({names}): {shown}{', ...' if len(unknown) > SHOWN else ''}"
        )

    @abc.abstractmethod
    def _split_settings(self):
        """The arguments of `splits.make` that are the kind's own, a dict."""

    @abc.abstractmethod
    def _open(self, name):
        """The source ``KIND:NAME@SPLIT``, another set than the run's own, to evaluate on."""

    @abc.abstractmethod
    def _examples(self, source, references):
        """Examples (see `rows`) of a source, with the labels [n] of its records."""

    @abc.abstractmethod
    def _shown(self, number, record):
        """What stands for a record in a report, a text."""

    @abc.abstractmethod
    def _facts(self):
        """A list for each of `FACTS`, for JSON."""
