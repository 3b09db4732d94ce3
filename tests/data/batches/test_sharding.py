"""The rows of each process: together they are all rows, in order."""

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
