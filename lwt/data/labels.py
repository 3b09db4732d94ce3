"""Labels: names or numbers of classes, or numbers to predict.

White space around and within a label does not count: " Billing" and "Billing" are one class. Whole numbers are classes,
also as 2.0 or "2.0"; numbers of which some have a fractional part are to be predicted.
"""

import collections
import dataclasses
import logging
import math
import re
import unicodedata

import numpy as np

from lwt import errors

LOG = logging.getLogger(__name__)
FILE = "labels.json"  # of a workdir
MANY = 100  # with as many classes, numbers with few records each may be meant to be predicted


@dataclasses.dataclass(frozen=True)
class Labels:
    """What a label means."""

    names: tuple  # of the classes, in order; empty if the label is a number to predict
    separator: str = ""  # between the labels of a record that may have several, or none; "": each has one

    @classmethod
    def of(cls, values, *, names=(), where="the data", warn=True, separator=""):
        """Finds out what the labels of the training data mean; warns of names that are nearly equal if `warn` is set.

        The classes are `names`, if the source declares them, or else the distinct labels, sorted.

        Raises:
            lwt.errors.DataError: there is only one class, or a label is neither text nor a number.
        """
        if names:
            names = [" ".join(name.split()) for name in names]
            if warn:
                warn_of_near_duplicates(names, where=where)
            return cls(tuple(names), separator)
        if separator:
            values = [label for value in values for label in split(value, separator, where=where)]
        wrong = next((v for v in values if not isinstance(v, str | int | float)), None)
        if wrong is not None:
            raise errors.DataError(f"{where}: a label must be text or a number, not {wrong!r:.60}")
        texts = {text_of(value) for value in set(values)}
        numbers = {text: number_of(text) for text in texts}
        if None in numbers.values():
            classes = sorted(texts)
        elif separator or all(math.isfinite(number) and number == int(number) for number in numbers.values()):
            classes = sorted(texts, key=lambda text: (numbers[text], text))
            if len(classes) > max(MANY, len(values) / 2):
                LOG.warning(
                    "%s: %d whole numbers label %d records, and each is a class; numbers to predict need a fractional "
                    "part in at least one label",
                    *(where, len(classes), len(values)),
                )
        else:
            return cls(())
        if len(classes) < 2:
            raise errors.DataError(
                f"{where}: all labels are {', '.join(map(repr, classes))}; there is nothing to learn"
            )
        if warn:
            warn_of_near_duplicates(classes, where=where)
        return cls(tuple(classes), separator)

    @property
    def regression(self):
        """Whether labels are numbers to predict."""
        return not self.names

    @property
    def outputs(self):
        """The number of outputs of a classifier."""
        return len(self.names) or 1

    def is_of(self, other):
        """Whether the classes of `other` are the same in the same order, up to white space."""
        one, two = ([*dict.fromkeys(map(text_of, labels.names))] for labels in (self, other))
        return one == two

    def encode(self, values, *, where="record {}".format):
        """``(array [n], unknown)``: float32 numbers, or int32 classes (-1: unknown), and a Counter of unknown labels.

        With a `separator` the array is [n c] float32: 1 for each label of a record and 0 for the others, or all -1 if
        one of them is unknown. A label is the name of a class or, unless the names are numbers, its index.

        Args:
            values: the labels.
            where: index of a label -> its place, for messages.

        Raises:
            lwt.errors.DataError: a label must be a number but is not; or labels count the named classes from 1.
        """
        if self.regression:
            numbers = [number_of(value) for value in values]
            wrong = next((i for i, x in enumerate(numbers) if x is None or not math.isfinite(x)), None)
            if wrong is not None:
                raise errors.DataError(f"{where(wrong)}: the label is not a number: {values[wrong]!r:.60}")
            if len(numbers) > 1 and {*numbers} == {-1}:
                raise errors.DataError(f"{where(0)}: all {len(numbers)} labels are -1, so they are hidden")
            return np.asarray(numbers, np.float32), collections.Counter()
        if self.separator:
            return self._encode_several(values, where)
        numbers = {name: i for i, name in enumerate(self.names)}
        numbers = {text_of(name): i for name, i in numbers.items()} | numbers
        texts = [value if isinstance(value, str) and value in numbers else text_of(value) for value in values]
        if all(number_of(name) is None for name in self.names):
            last = str(len(self.names))
            if last in texts and last not in numbers and "0" not in texts:
                raise errors.DataError(
                    f"{where(texts.index(last))}: the label {last} is there and 0 is not; the {last} classes "
                    f"({', '.join(self.names[:8])}) are numbered from 0, so subtract 1 from the labels"
                )
            numbers = {str(i): i for i in range(len(self.names))} | numbers
        classes = np.asarray([numbers.get(text, -1) for text in texts], np.int32)
        return classes, collections.Counter(texts[i] for i in np.flatnonzero(classes < 0))

    def _encode_several(self, values, where):
        columns = {text_of(name): i for i, name in enumerate(self.names)}
        found, unknown = np.zeros((len(values), len(self.names)), np.float32), collections.Counter()
        for i, value in enumerate(values):
            mine = split(value, self.separator, where=where(i))
            strange = [label for label in mine if label not in columns]
            unknown.update(strange)
            if strange:
                found[i] = -1
            else:
                found[i, [columns[label] for label in mine]] = 1
        return found, unknown

    def known(self, encoded):
        """Which records of the array of `encode` have no unknown label, [n] bool."""
        return (encoded >= 0).all(axis=1) if self.separator else self.regression | (encoded >= 0)

    def counts(self, encoded):
        """How many records of the array of `encode` have each class, [c]."""
        encoded = encoded[self.known(encoded)]
        return encoded.sum(axis=0) if self.separator else np.bincount(encoded, minlength=self.outputs)

    def decode(self, values):
        """The labels, as texts, of the array of `encode` or of outputs ([n], or [n c] logits); "?" if unknown.

        With a `separator`, those of the columns above 0 with the separator between.
        """
        values = np.asarray(values)
        if self.separator:
            rows = [[name for name, value in zip(self.names, row) if value > 0] for row in values.tolist()]
            unknown = (values == -1).all(axis=1)
            return ["?" if strange else self.separator.join(row) for row, strange in zip(rows, unknown, strict=True)]
        if self.regression:
            return [f"{value:.4g}" for value in values.reshape(-1)]
        values = values.argmax(-1) if values.ndim == 2 else values
        return [self.names[value] if value >= 0 else "?" for value in values]


def read(path):
    """The names of the classes, one per line of a ``labels.txt``; () if there is no such file."""
    if not path.is_file():
        return ()
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip())
    except UnicodeDecodeError as error:
        raise errors.DataError(f"{path}: bad UTF-8 at byte {error.start}") from error
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice or len(names) < 2:
        what = f"{twice[0]!r} is there twice" if twice else f"{len(names)} names"
        raise errors.DataError(f"{path}: {what}; it must name every class once, one per line, at least two")
    return names


def split(value, separator, *, where):
    """The labels of a record that may have several: of a list, or of a text with a separator; each once, in order.

    Raises:
        lwt.errors.DataError: the value is neither text nor a number, nor a list of them; `where` is its place.
    """
    parts = value if isinstance(value, list | tuple) else value.split(separator) if isinstance(value, str) else [value]
    if not all(isinstance(part, str | int | float) for part in parts):
        what = f"texts with {separator!r} between, or a list"
        raise errors.DataError(f"{where}: the labels of a record must be {what}, not {value!r:.60}")
    return [*dict.fromkeys(filter(None, map(text_of, parts)))]


def text_of(label):
    """A label as the name of a class: single spaces, and "2" for 2.0."""
    text = " ".join(str(label).split())
    return re.sub(r"(?<=\d)\.0*$", "", text) if re.fullmatch(r"[-+]?\d+\.0*", text) else text


def near_duplicates(names):
    """The groups ``[[name, ...], ...]`` of names that differ in case, white space, punctuation or the form of
    characters alone, or are one number."""
    alike = collections.defaultdict(list)
    for name in names:
        number, letters = number_of(name), re.sub(r"[\s_./-]+", "", unicodedata.normalize("NFKC", name).casefold())
        alike[(letters or name) if number is None else number].append(name)
    return [found for found in alike.values() if len(found) > 1]


def warn_of_near_duplicates(names, *, where):
    """Logs the `near_duplicates` among the names."""
    for found in near_duplicates(names):
        LOG.warning("%s: are the classes %s the same? They are nearly equal", where, ", ".join(map(repr, found)))


def number_of(value):
    """A label as a number, such as 2.0 or "2.0"; None if it is not a number."""
    if isinstance(value, int | float):
        return value
    try:
        return float(value) if any(mark in value for mark in ".eEn") else int(value)
    except (ValueError, TypeError):
        return None
