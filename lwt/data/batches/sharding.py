"""The rows of a batch that one process makes, when several processes share the batches of a run."""

import dataclasses

from lwt import errors


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of one process in every batch.

    Attributes:
        process: the number of the process, from 0.
        processes: how many processes make the batches together.
    """

    process: int = 0
    processes: int = 1

    def rows(self, count):
        """The rows of a batch of `count` rows that the process makes: a contiguous range.

        Raises:
            lwt.errors.ConfigError: the processes cannot share the rows evenly.
        """
        if count % self.processes:
            raise errors.ConfigError(
                f"a batch of {count} rows cannot be shared evenly among {self.processes} processes"
            )
        size = count // self.processes
        return range(size * self.process, size * (self.process + 1))


WHOLE = Share()
