"""Pairs of texts with a number for how alike they are, from source to batch: the data of a model of vectors."""

from lwt import errors
from lwt.data.batches import compared_examples
from lwt.data.kinds import labelled


class Compared(labelled.Labelled):
    """Like `labelled.Labelled` for two texts, except that the model reads each text alone."""

    def example(self):
        batch = super().example()
        return batch | {f"{compared_examples.SECOND}{name}": batch[name] for name in ("ids", "segments")}

    def _rows(self, sides, references):
        if len(sides) != 2:
            raise errors.ConfigError(f"data.fields={self.fields} must name two texts to compare: data.kind='compared'")
        return self._labelled(sides, references, kind=compared_examples.ComparedExamples)
