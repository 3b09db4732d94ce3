"""The random numbers of batches: the same for the same seed, however many processes share the rows."""

import numpy as np

ORDER, DRAW, BATCH = 1, 2, 3  # what a random generator is used for: the first number of its seed


def take(drawn, indices):
    """The rows `indices` of what `Examples.draw` returned."""
    return {name: array[indices] for name, array in drawn.items()}


def uniform_of(seed, rows, *, part):
    """The argument ``uniform`` of `Examples.batch`.

    It draws for all `rows` of the global batch and returns those of the range `part`, so the numbers of a row do not
    depend on how many processes share the batch.
    """
    rng = np.random.default_rng(seed)

    def uniform(width):
        return rng.random((rows, width), np.float32)[part.start : part.stop]

    return uniform
