"""Batches made ahead of time, in a thread."""

import queue
import threading


class Prefetch:
    """An iterator that keeps `size` items of another one ready; what that one raises is raised here, in its turn.

    Close it (or use it in a ``with``) to end the thread.
    """

    def __init__(self, iterator, size=2):
        self._iterator = iterator
        self._state = self._now()
        self._ready = queue.Queue(maxsize=max(1, size))
        self._stop = threading.Event()
        self._end = None
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def __iter__(self):
        return self

    def __next__(self):
        if self._end is None and self._stop.is_set():
            raise ValueError("this Prefetch is closed")
        if self._end is None:
            item, state, self._end = self._ready.get()
        if self._end is not None:
            raise self._end
        self._state = state
        return item

    def state(self):
        """The state of the underlying iterator right after the last item handed out; restoring it loses nothing."""
        return self._state

    def close(self):
        """Ends the thread; what was read ahead is dropped."""
        self._stop.set()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _now(self):
        return self._iterator.state() if hasattr(self._iterator, "state") else None

    def _run(self):
        try:
            for item in self._iterator:
                if not self._put((item, self._now(), None)):
                    return
            self._put((None, None, StopIteration()))
        except BaseException as error:  # to be raised where the items are used
            self._put((None, None, error))

    def _put(self, entry):
        while not self._stop.is_set():
            try:
                self._ready.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
