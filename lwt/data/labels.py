"""Labels: names or numbers of classes, or numbers to predict."""

import collections
import dataclasses
import math

import numpy as np

from lwt import errors

FILE = "labels.json"  # of a workdir


@dataclasses.dataclass(frozen=True)
class Labels:
    """What a label means."""

    names: tuple  # of the classes, in order; empty if the label is a number to predict

    @classmethod
    def of(cls, values, *, names=(), where="the data"):
        """Finds out what the labels of the training data mean.

        The classes are `names`, if the source declares them, or else the distinct labels, sorted. Labels with a
        fractional part (2.5, "4.0") are numbers to predict.

        Raises:
            lwt.errors.DataError: there is only one class, or a label is neither text nor a number.
        """
        if names:
            return cls(tuple(names))
        wrong = next((v for v in values if not isinstance(v, str | int | float)), None)
        if wrong is not None:
            raise errors.DataError(f"{where}: a label should be text or a number, not {wrong!r:.60}")
        numbers = {value: _number(value) for value in set(values)}
        if None in numbers.values():
            classes = sorted(map(str, numbers))
        elif any(isinstance(number, float) for number in numbers.values()):
            return cls(())
        else:
            classes = [str(value) for value in sorted(numbers, key=lambda value: (numbers[value], str(value)))]
        if len(classes) < 2:
            raise errors.DataError(
                f"{where}: all labels are {', '.join(map(repr, classes))}; there is nothing to learn"
            )
        return cls(tuple(classes))

    @property
    def regression(self):
        """Whether labels are numbers to predict."""
        return not self.names

    @property
    def outputs(self):
        """The number of outputs of a classifier."""
        return len(self.names) or 1

    def encode(self, values, *, where="the data"):
        """``(array [n], unknown)``: float32 numbers, or int32 classes (-1: unknown), and a Counter of unknown labels.

        A label is the name of a class or, unless the names are numbers, its index.

        Raises:
            lwt.errors.DataError: a label should be a number but is not.
        """
        if self.regression:
            numbers = [_number(value) for value in values]
            wrong = next((i for i, x in enumerate(numbers) if x is None or not math.isfinite(x)), None)
            if wrong is not None:
                raise errors.DataError(f"{where}: the label of record {wrong} is not a number: {values[wrong]!r:.60}")
            return np.asarray(numbers, np.float32), collections.Counter()
        numbers = {name: i for i, name in enumerate(self.names)}
        if all(_number(name) is None for name in self.names):
            numbers |= {str(i): i for i in range(len(self.names))}
        classes = np.asarray([numbers.get(str(value), -1) for value in values], np.int32)
        return classes, collections.Counter(str(values[i]) for i in np.flatnonzero(classes < 0))

    def decode(self, values):
        """The labels, as texts, of the array of `encode` or of outputs ([n], or [n c] logits); "?" if unknown."""
        values = np.asarray(values)
        if self.regression:
            return [f"{value:.4g}" for value in values.reshape(-1)]
        values = values.argmax(-1) if values.ndim == 2 else values
        return [self.names[value] if value >= 0 else "?" for value in values]


def _number(value):
    """The number that a label is or spells; None if there is none."""
    if isinstance(value, int | float):
        return value
    try:
        return float(value) if any(mark in value for mark in ".eEn") else int(value)
    except (ValueError, TypeError):
        return None
