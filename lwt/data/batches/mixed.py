"""Training batches of several tasks: as many rows of each, one task after the other."""

import numpy as np


class MixedBatches:
    """Joins the endless training batches of tasks; each task's rows are those that it would have alone.

    Rows are filled up with zeros, the mark of padding, to the longest of a batch.

    Args:
        streams: ``{task: batches}``; the batches have the same number of rows and the same names.
    """

    def __init__(self, streams):
        self._streams = streams

    def __iter__(self):
        return self

    def __next__(self):
        batches = [next(stream) for stream in self._streams.values()]
        return {name: _joined([batch[name] for batch in batches]) for name in batches[0]}

    def state(self):
        """The position of the next batch, as a small dict for JSON."""
        return {task: stream.state() for task, stream in self._streams.items()}

    def restore(self, state):
        """Moves to the position of a `state()`; raises as the batches of the tasks do."""
        for task, stream in self._streams.items():
            stream.restore(state.get(task, {}))

    def measure(self):
        """``batches`` of an epoch, that of the largest task."""
        return {"batches": max(stream.measure()["batches"] for stream in self._streams.values())}


def _joined(arrays):
    if arrays[0].ndim < 2:
        return np.concatenate(arrays)
    longest = max(x.shape[1] for x in arrays)
    return np.concatenate([np.pad(x, [(0, 0), (0, longest - x.shape[1])] + [(0, 0)] * (x.ndim - 2)) for x in arrays])
