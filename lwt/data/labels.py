"""Labels of texts: classes by name or number, or numbers to predict."""

import collections
import dataclasses
import math

import numpy as np

from lwt import errors

FILE = "labels.json"  # of a workdir


@dataclasses.dataclass(frozen=True)
class Labels:
    """What a label means.

    Attributes:
        names: of the classes, in their order; none: the label is a number to predict.
    """

    names: tuple

    @classmethod
    def of(cls, values, *, names=(), where="the data"):
        """From the labels of the training data.

        Classes are `names`, if the source tells them; else the different labels in order. Labels that are numbers with
        a fraction part (2.5, "4.0") are numbers to predict.

        Raises:
            lwt.errors.DataError: only one class, or labels that are neither text nor numbers.
        """
        if names:
            return cls(tuple(names))
        wrong = next((v for v in values if not isinstance(v, str | int | float)), None)
        if wrong is not None:
            raise errors.DataError(f"{where}: a label should be text or a number, not {wrong!r:.60}")
        numbers = {value: _number(value) for value in set(values)}
        if None in numbers.values():
            found = sorted(map(str, numbers))
        elif any(isinstance(number, float) for number in numbers.values()):
            return cls(())
        else:
            found = [str(value) for value in sorted(numbers, key=lambda value: (numbers[value], str(value)))]
        if len(found) < 2:
            raise errors.DataError(f"{where}: all labels are {', '.join(map(repr, found))}; there is nothing to learn")
        return cls(tuple(found))

    @property
    def regression(self):
        """Whether the label is a number to predict."""
        return not self.names

    @property
    def outputs(self):
        """Outputs of a model."""
        return len(self.names) or 1

    def encode(self, values, *, where="the data"):
        """``(array [n], unknown)``: float32 numbers, or int32 classes in which -1 is unknown; a Counter of those.

        A label is a class's name or, unless classes are called by numbers, its place among the classes.

        Raises:
            lwt.errors.DataError: of numbers, one that is none; names the record.
        """
        if self.regression:
            numbers = [_number(value) for value in values]
            wrong = next((i for i, x in enumerate(numbers) if x is None or not math.isfinite(x)), None)
            if wrong is not None:
                raise errors.DataError(f"{where}: the label of record {wrong} is no number: {values[wrong]!r:.60}")
            return np.asarray(numbers, np.float32), collections.Counter()
        numbers = {name: i for i, name in enumerate(self.names)}
        if all(_number(name) is None for name in self.names):
            numbers |= {str(i): i for i in range(len(self.names))}
        found = np.asarray([numbers.get(str(value), -1) for value in values], np.int32)
        return found, collections.Counter(str(values[i]) for i in np.flatnonzero(found < 0))

    def decode(self, values):
        """Texts of `encode`'s numbers, or of a model's outputs (`[n]`, or `[n c]` logits); "?" for an unknown class."""
        values = np.asarray(values)
        if self.regression:
            return [f"{value:.4g}" for value in values.reshape(-1)]
        values = values.argmax(-1) if values.ndim == 2 else values
        return [self.names[value] if value >= 0 else "?" for value in values]


def _number(value):
    """An int or float, from one or from its text; None if it is none."""
    if isinstance(value, int | float):
        return value
    try:
        return float(value) if any(mark in value for mark in ".eEn") else int(value)
    except (ValueError, TypeError):
        return None
