"""Images with a label each, from source to batch: the data of an image classifier."""

import dataclasses
import hashlib
import logging
import os

import numpy as np

from lwt import errors
from lwt.data import inputs, sources
from lwt.data.batches import bucketed, image_examples, sharding
from lwt.data.images import cache, decoding, randaugment
from lwt.data.kinds import common, supervised

LOG = logging.getLogger(__name__)


class Images(supervised.Supervised):
    """The data of a run on images; see `supervised.Supervised` and `common.Data`.

    The records of a source have ``image`` and ``data.label``. The images are decoded once (`images.cache`), as
    ``data.image_size`` and ``data.channels`` say (`images.decoding.fit`). ``data.randaugment`` is (operations,
    magnitude), or empty. The workdir also keeps the shape of the images.
    """

    EXTRA_KEYS, reads_images = ("image",), True

    @property
    def labels(self):
        """See `supervised.Supervised.labels`; numbers raise `lwt.errors.DataError`."""
        labels = super().labels
        if labels.regression:
            raise errors.DataError(f"data.train={self._section.train}: labels of images must be classes, not numbers")
        return labels

    @property
    def identity(self):
        """See `common.Data`: the classes and the shape of the images."""
        return {"set of classes": sources.digest(self.labels.names, self.shape)}

    @property
    def shape(self):
        """(h, w, c) of an image."""
        return tuple(self._labels_file["image"][:3])

    @property
    def positions(self):
        """See `common.Data`: the images of a training batch."""
        return self._section.rows

    def training(self, *, share=sharding.WHOLE):
        """Endless `bucketed.BucketedBatches` of the training part."""
        chosen, rows, count = tuple(self._section.randaugment), self._section.rows, len(self._train_examples)
        augment = randaugment.RandAugment(*chosen) if chosen else None
        examples = dataclasses.replace(self._train_examples, augment=augment)
        LOG.info(
            "%s: %d images of %s, %d classes, %.1f batches per epoch",
            *(self.splits.train.name, count, " × ".join(map(str, self.shape)), self.outputs, count / rows),
        )
        return bucketed.BucketedBatches(
            examples, rows=rows, lengths=image_examples.LENGTHS, seed=self._seed, share=share
        )

    def from_texts(self, texts):
        """The `common.Evaluation` of images to predict, by the paths of their files (`decoding.load`).

        Raises:
            lwt.errors.DataError: a file is missing or holds no image, or its image has another shape or type than the
                training data.
        """
        paths = list(map(str, inputs.checked(texts, kind=str | os.PathLike)))
        size, kind = self._section.image_size, self._labels_file["image"]
        images = np.zeros((len(paths), *self.shape), kind[3])
        limit = self.max_megabytes
        for row, path in zip(images, paths, strict=True):
            try:
                image = decoding.fit(decoding.load(path, max_megabytes=limit), size=size, channels=self.shape[2])
            except ValueError as error:
                raise errors.DataError(f"{path}: {error}") from error
            if [*image.shape, image.dtype.name] != kind:
                raise errors.DataError(f"{path} is {[*image.shape, image.dtype.name]}; the training images are {kind}")
            row[...] = image
        examples = image_examples.ImageExamples(images, np.arange(len(images)), None, None, "")
        return common.Evaluation("images", examples, paths)

    def example(self):
        count = self._section.rows
        return {
            "image": np.zeros((count, *self.shape), self._labels_file["image"][3]),
            "weight": np.zeros(count, np.float32),
            "label": np.zeros(count, np.int32),
        }

    def _source(self, name, *, split="train", fields=(), max_malformed=0.01):
        """The source `name`, with decoded images."""
        options = {"max_malformed": max_malformed, "max_megabytes": self.max_megabytes}
        source = sources.load(name, split=split, fields=fields, **options)
        size, channels, label = (self._section[key] for key in ("image_size", "channels", "label"))
        return cache.decoded(source, size=size, channels=channels, label=label, **options)

    def _split_settings(self):
        return {"fields": (cache.IMAGE,), "load": self._source, "key": _pixels}

    def _load_other(self, name):
        source = self._source(name, split="test", max_malformed=self._section.max_malformed)
        sources.report(source)
        return source

    def _examples(self, source, references):
        arrays = source.records
        kind = [*arrays.images.shape[1:], arrays.images.dtype.name]
        if kind != self._labels_file["image"]:
            raise errors.DataError(
                f"{source.name} has images of {kind}, the training data of {self._labels_file['image']}: see "
                "data.image_size and data.channels"
            )
        return image_examples.ImageExamples(arrays.images, arrays.index, references, None, source.fingerprint)

    def _evaluation_lengths(self):
        return image_examples.LENGTHS

    def _source_text(self, number, record):
        return str(record.get("file", f"record {number}"))

    def _extra_values(self):
        images = self.splits.train.records.images
        return {"image": [*images.shape[1:], images.dtype.name]}


def _pixels(record, fields):
    """A hash of the pixels, which equal images share."""
    del fields
    return hashlib.blake2b(np.ascontiguousarray(record[cache.IMAGE]), digest_size=16).digest()
