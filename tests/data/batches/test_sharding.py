"""The rows of each process together are all rows, in order, and their random numbers do not depend on the processes."""

import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import sharding


def test_shares_are_contiguous_and_make_the_whole():
    assert sharding.WHOLE.rows(8) == range(8)
    parts = [sharding.Share(process, 4).rows(8) for process in range(4)]
    assert [row for part in parts for row in part] == list(range(8)) and {len(part) for part in parts} == {2}


def test_uneven_shares_are_refused():
    with pytest.raises(errors.ConfigError, match="8 rows cannot be shared evenly among 3 processes"):
        sharding.Share(0, 3).rows(8)


def test_parts_of_the_rows_make_the_whole():
    whole, *parts = (sharding.uniform_of([3, 0, 7], 6, part=part) for part in (range(6), range(2), range(2, 6)))
    for width in (1, 5):
        numbers = whole(width)
        assert numbers.shape == (6, width) and numbers.dtype == np.float32 and 0 <= numbers.min() < numbers.max() < 1
        np.testing.assert_array_equal(np.concatenate([part(width) for part in parts]), numbers)


def test_rows_are_taken_of_every_array():
    drawn = {"length": np.arange(4), "start": np.arange(8).reshape(4, 2)}
    taken = sharding.take(drawn, np.array([2, 0]))
    assert taken["length"].tolist() == [2, 0] and taken["start"].tolist() == [[4, 5], [0, 1]]
