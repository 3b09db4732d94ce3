"""Texts as vectors, and how similar two of them are."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What `experiment.Experiment.embed` evaluates: the vector of each row; see `text_head.TextModel.text_vectors`."""

    normalize: bool | None = None

    def predict(self, apply, batch):
        """The vectors `[b d]` of a batch."""
        return apply(batch, method="text_vectors", normalize=self.normalize)
