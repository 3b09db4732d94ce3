"""The rows of a batch that one process makes, and random numbers that do not depend on how many processes there are."""

import dataclasses

import numpy as np

from lwt import errors

ORDER, DRAW, BATCH = 1, 2, 3  # what a random generator is used for: the first number of its seed


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of one process in every batch."""

    process: int = 0  # its number, from 0
    processes: int = 1  # how many make the batches together

    def rows(self, count, *, what="a batch"):
        """The rows of a batch of `count` rows, called `what` in an error, that the process makes: a contiguous range.

        Raises:
            lwt.errors.ConfigError: the processes cannot share the rows evenly.
        """
        if count % self.processes:
            raise errors.ConfigError(f"{what} of {count} rows cannot be shared evenly among {self.processes} processes")
        size = count // self.processes
        return range(size * self.process, size * (self.process + 1))


WHOLE = Share()


def uniform_of(seed, rows, *, part):
    """The argument ``uniform`` of `Examples.batch`: draws for all `rows` of a batch, returns those of `part`."""
    rng = np.random.default_rng(seed)

    def uniform(width):
        return rng.random((rows, width), np.float32)[part.start : part.stop]

    return uniform


def take(drawn, indices):
    """The rows `indices` of what `Examples.draw` returned."""
    return {name: array[indices] for name, array in drawn.items()}
