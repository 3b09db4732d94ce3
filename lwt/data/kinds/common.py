"""What all kinds of data have in common: what a run calls, and the sets to evaluate on."""

import abc
import collections.abc
import dataclasses
import pathlib

import numpy as np

from lwt import errors
from lwt.data import labels, sources, splits, text_fields, tokenizer_files
from lwt.data.batches import examples, padded, sharding

FEW = (1, 16)  # rows of the only batch of so few records, in place of `data.eval_batch` with filler rows
FILES = (*tokenizer_files.NAMES, labels.FILE, splits.FILE)  # what a run's data keep in its workdir, beside their caches


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A set of records to evaluate on, or to predict.

    The sources are what a report shows of each record: a raw text (the two of a pair with a tab between), the file of
    an image, or a number. References are raw texts, [n] classes (-1: a label that is not among the classes) or [n]
    numbers.
    """

    name: str  # ``KIND:NAME@SPLIT``; of inputs to predict, what they are
    examples: examples.Examples  # in the order of `sources`
    sources: collections.abc.Sequence
    references: list | np.ndarray | None = None  # None where there is nothing to compare the outputs with
    groups: list | None = None  # the field ``task`` of each record, by which figures are split


class Data(abc.ABC):
    """The data of a run.

    Args:
        section: ``config.data``.
        workdir: the folder of the run, which keeps what is made of the data.
        base: the workdir of the run that this one starts from, or "".
        seed: the seed of the order of the training data.
        make: whether to make a missing tokenizer.

    Attributes:
        tokenizer: a `lwt.data.tokenizer.Tokenizer` or `lwt.data.hf_tokenizer.Tokenizer`; None for images.
        vocabulary: rows of the model's table of tokens; 0 without one.
        frame: the `lwt.data.frame.Frame` of the tokenizer; None without one, and for pairs.
        outputs: outputs of the model's classifier; 0 without one.
    """

    tokenizer, frame, vocabulary, outputs = None, None, 0, 0
    reads_images = False  # whether a prediction reads image files, by their paths
    input_fields = ()  # the fields of a record that a prediction reads; empty if only lines can be read

    def __init__(self, section, workdir, *, base="", seed=0, make=True):
        del base, make
        self._section, self._workdir, self._seed = section, pathlib.Path(workdir), seed

    @property
    @abc.abstractmethod
    def identity(self):
        """What a checkpoint must agree on, a dict of fingerprints."""

    @property
    def test(self):
        """The name of the test set, with its split."""
        return sources.with_split(self._section.test, "test")

    @property
    def max_megabytes(self):
        """MB that a record may have, and a line of a file to answer."""
        return self._section.max_megabytes

    def named(self, split):
        """The name of a split of the test set; "validation" and "test" (or "") are those of the config."""
        validation = sources.with_split(self._section.validation, "validation")
        configured = {"": self.test, "test": self.test, "validation": validation}
        return configured[split] if split in configured else sources.at(self.test, split)

    @property
    @abc.abstractmethod
    def positions(self):
        """Positions of a training batch (of pairs, of both sides; of images, the images), on average."""

    def taken(self):
        """What is taken for training, validation and test, with the files, as a log line; nothing is read."""
        names = {"train": self._section.train, "validation": self._section.validation, "test": self.test}
        texts = []
        for part, name in names.items():
            try:
                texts.append(f"{part}: {sources.describe(name, split=part) if name else 'none'}")
            except errors.DataError as error:
                texts.append(f"{part}: MISSING, {error}")
        return "; ".join(texts)

    @abc.abstractmethod
    def training(self, *, share=sharding.WHOLE):
        """Endless training batches, with ``state()`` and ``restore(state)``; `share` is that of this process."""

    @abc.abstractmethod
    def evaluation(self, name, *, limit=0):
        """The `Evaluation` of a set.

        Args:
            name: ``KIND:NAME@SPLIT``, or a name that `named` returned.
            limit: the number of records to draw; 0: all.
        """

    def batches(self, evaluation, *, share=sharding.WHOLE):
        """The `padded.PaddedBatches` of an `Evaluation`: the same at every call."""
        rows, lengths = self._section.eval_batch, self._evaluation_lengths()
        if share.processes == 1:
            rows = next((few for few in FEW if len(evaluation.examples) <= few < rows), rows)
        return padded.PaddedBatches(evaluation.examples, rows=rows, lengths=lengths, share=share)

    @abc.abstractmethod
    def from_texts(self, texts):
        """The `Evaluation` of a list of texts (or paths of images) to predict, which `inputs.checked` checks."""

    def check_input(self, text):
        """Raises `lwt.errors.DataError` if a text is not what `from_texts` takes."""
        del text

    def input_of(self, record):
        """The text of a record that holds the `input_fields`, as `from_texts` takes it."""
        return "\t".join(" ".join(text.split()) for text in text_fields.texts_of(record, self.input_fields))

    @property
    def longest(self):
        """The length of the longest row of an evaluation."""
        return max(self._evaluation_lengths())

    def cut(self, evaluation):
        """The number of records of an `Evaluation` that do not fit the longest row, and are cut."""
        return evaluation.examples.too_long(self.longest)

    @abc.abstractmethod
    def example(self):
        """A training batch of zeros: its names, shapes and types."""

    @abc.abstractmethod
    def _evaluation_lengths(self):
        """The lengths that rows of an evaluation are padded to, ascending."""


def groups_of(source, records):
    """The field ``task`` of each record, or None without such a field."""
    return [record["task"] for record in records] if "task" in source.fields else None
