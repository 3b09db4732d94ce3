"""Reading ahead: the same items, the state of what was handed out, errors in their turn."""

import threading
import time

import pytest

from lwt.data.batches import prefetch


class Counter:
    def __init__(self, end):
        self.at, self.end = 0, end

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.end:
            raise OSError("the disk is gone")
        self.at += 1
        return self.at

    def state(self):
        return {"at": self.at}


def test_items_state_and_errors():
    counter = Counter(6)
    with prefetch.Prefetch(counter, size=3) as items:
        assert items.state() == {"at": 0}
        assert next(items) == 1
        deadline = time.time() + 10
        while counter.at < 5 and time.time() < deadline:
            time.sleep(0.01)
        assert counter.at == 5  # one handed out, three ready, one waiting for a place
        assert items.state() == {"at": 1}
        assert [next(items) for _ in range(5)] == [2, 3, 4, 5, 6]
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                next(items)
        assert items.state() == {"at": 6}


def test_a_finite_iterator_ends():
    assert list(prefetch.Prefetch(iter("abc"))) == ["a", "b", "c"]


def test_close_ends_the_thread():
    before = threading.active_count()
    items = prefetch.Prefetch(Counter(10**9))
    next(items)
    assert threading.active_count() == before + 1
    items.close()
    assert threading.active_count() == before
    with pytest.raises(ValueError, match="closed"):
        next(items)
