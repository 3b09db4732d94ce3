"""Labelled images as the rows of an image classifier."""

import collections.abc
import dataclasses

import numpy as np

from lwt.data.batches import examples

LENGTHS = (1,)  # of a row, as the batchers ask for it: an image has no length


@dataclasses.dataclass(frozen=True)
class ImageExamples(examples.Examples):
    """Images of one shape with their labels."""

    images: np.ndarray  # [all h w c] uint8 or float32
    index: np.ndarray  # [n] int64; the image of record i is ``images[index[i]]``
    labels: np.ndarray | None  # [n] int32, -1: a label that is not among the classes; None to predict
    augment: collections.abc.Callable | None  # a `randaugment.RandAugment`
    fingerprint: str  # a hash of the records

    def __len__(self):
        return len(self.index)

    def draw(self, records, rng):
        """See `examples.Examples`; nothing is random."""
        del rng
        return {"record": records, "length": np.ones_like(records)}

    def batch(self, drawn, length, uniform):
        """``image`` [n h w c], ``weight`` [n] float32, all 1, and, if there are labels, ``label`` [n] int32."""
        del length
        records = drawn["record"]
        images = self.images[self.index[records]]
        if self.augment:
            images = self.augment(images, uniform(1)[:, 0])
        batch = {"image": images, "weight": np.ones(len(records), np.float32)}
        return batch | ({} if self.labels is None else {"label": self.labels[records]})
