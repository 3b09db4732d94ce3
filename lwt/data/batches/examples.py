"""What a batcher expects of the examples of a data set."""

import abc


class Examples(abc.ABC):
    """The records of a data set, for `bucketed.BucketedBatches` and `padded.PaddedBatches`.

    A batcher calls `draw` with the records in the order of the epoch, sorts them by length, and calls `batch` for each
    group of rows. Examples to train on have an attribute ``fingerprint``.
    """

    @abc.abstractmethod
    def __len__(self):
        """The number of records."""

    @abc.abstractmethod
    def draw(self, records, rng):
        """Makes every random choice that decides the length of a row, such as the second text of a pair.

        Args:
            records: [n] indices, in the order of the epoch.
            rng: a `numpy.random.Generator`.

        Returns:
            ``{name: array [n ...]}``, among them ``length`` [n], the tokens of each row.
        """

    @abc.abstractmethod
    def batch(self, drawn, length, uniform):
        """Makes ``{name: array [n ...]}`` of a batch, with every other random choice, such as the tokens to mask.

        Args:
            drawn: rows of what `draw` returned.
            length: tokens of a row; a longer row is cut.
            uniform: ``uniform(k)`` returns numbers [n k] in [0, 1).
        """

    def too_long(self, length):
        """The number of records that do not fit a row of `length` tokens, so that a batch cuts them."""
        del length
        return 0
