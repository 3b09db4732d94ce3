"""The random numbers of batches do not depend on the number of processes."""

import numpy as np

from lwt.data.batches import draws


def test_parts_of_the_rows_make_the_whole():
    whole, *parts = (draws.uniform_of([3, 0, 7], 6, part=part) for part in (range(6), range(2), range(2, 6)))
    for width in (1, 5):
        numbers = whole(width)
        assert numbers.shape == (6, width) and numbers.dtype == np.float32 and 0 <= numbers.min() < numbers.max() < 1
        np.testing.assert_array_equal(np.concatenate([part(width) for part in parts]), numbers)


def test_rows_are_taken_of_every_array():
    drawn = {"length": np.arange(4), "start": np.arange(8).reshape(4, 2)}
    taken = draws.take(drawn, np.array([2, 0]))
    assert taken["length"].tolist() == [2, 0] and taken["start"].tolist() == [[4, 5], [0, 1]]
