"""Mixed batches hold the rows that every task would have alone, in the order of the tasks."""

import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import mixed


class Numbers:
    """Endless batches of two rows, whose length grows with the task."""

    def __init__(self, length):
        self.length, self.at = length, 0

    def __next__(self):
        self.at += 1
        return {"ids": np.full((2, self.length), self.at), "label": np.full(2, self.length)}

    def state(self):
        return {"at": self.at}

    def restore(self, state):
        if "at" not in state:
            raise errors.DataError("no position")
        self.at = state["at"]

    def measure(self):
        return {"batches": 10 / self.length}


def test_rows_of_every_task():
    batches = mixed.MixedBatches({"a": Numbers(2), "b": Numbers(3)})
    next(batches)
    batch = next(batches)
    np.testing.assert_array_equal(batch["ids"], [[2, 2, 0], [2, 2, 0], [2, 2, 2], [2, 2, 2]])
    np.testing.assert_array_equal(batch["label"], [2, 2, 3, 3])
    assert batches.measure() == {"batches": 5}


def test_position():
    batches, other = (mixed.MixedBatches({"a": Numbers(2), "b": Numbers(3)}) for _ in range(2))
    next(batches)
    other.restore(batches.state())
    assert (next(other)["ids"] == next(batches)["ids"]).all()
    with pytest.raises(errors.DataError, match="no position"):
        mixed.MixedBatches({"c": Numbers(2)}).restore(batches.state())
