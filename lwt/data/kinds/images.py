"""Images with a label each, from source to batch: what an image classifier is trained on."""

import dataclasses
import hashlib
import logging
import pathlib

import numpy as np

from lwt import errors
from lwt.data import sources
from lwt.data.batches import bucketed
from lwt.data.images import cache, files, randaugment
from lwt.data.kinds import supervised

LOG = logging.getLogger(__name__)
LENGTHS = (1,)  # of a row: what `rows` calls its length has no meaning here


@dataclasses.dataclass(frozen=True)
class Examples:
    """Images of one shape with their labels, for `bucketed.Bucketed` and `bucketed.Padded`.

    Attributes:
        images: [all h w c] uint8 or float32.
        index: [n] int64; the image of record i is ``images[index[i]]``.
        labels: [n] int32, -1: a class that training did not know; None to predict.
        augment: a `randaugment.RandAugment`, or None.
        fingerprint: of the records.
    """

    images: np.ndarray
    index: np.ndarray
    labels: np.ndarray | None
    augment: randaugment.RandAugment | None
    fingerprint: str

    def __len__(self):
        return len(self.index)

    def draw(self, records, rng):
        """See `rows`; chance has no part in it."""
        del rng
        return {"record": records, "length": np.ones_like(records), "cut": np.zeros(len(records), bool)}

    def batch(self, drawn, length, uniform):
        """``image`` [n h w c], ``weight`` [n] float32, all 1, and, if there are labels, ``label`` [n] int32."""
        del length
        records = drawn["record"]
        images = self.images[self.index[records]]
        if self.augment:
            images = self.augment(images, uniform(1)[:, 0])
        batch = {"image": images, "weight": np.ones(len(records), np.float32)}
        return batch | ({} if self.labels is None else {"label": self.labels[records]})


class Images(supervised.Supervised):
    """The data of a run on images, by its config's section ``data``; see `supervised.Supervised`.

    A source is a folder (`image_files`), a builder of TFDS, or made up: whatever has records with ``image`` and
    ``data.label``. Its images are decoded once (`image_cache`), as ``data.image_size`` and ``data.channels`` say
    (`files.fit`); ``data.randaugment`` is (operations, magnitude), or empty.

    The workdir keeps the indices of the splits, the names of the classes and the shape of the images: to predict, no
    data is needed.

    Args: see `encoder.TextData`; images have no tokenizer, so that nothing is taken over from `base`.
    """

    FACTS = ("image",)
    tokenizer, vocabulary = None, 0

    def __init__(self, section, workdir, *, base="", seed=0, make=True):
        del base, make
        self._section, self._workdir, self._seed = section, pathlib.Path(workdir), seed

    @property
    def labels(self):
        """See `supervised.Supervised.labels`.

        Raises:
            lwt.errors.DataError: they are numbers to predict.
        """
        found = super().labels
        if found.regression:
            raise errors.DataError(f"data.train={self._section.train}: labels of images should be classes, not numbers")
        return found

    @property
    def identity(self):
        """What a checkpoint has to agree on: the classes and the shape of the images."""
        return {"set of classes": sources.digest(self.labels.names, self.shape)}

    @property
    def shape(self):
        """(h, w, c) of an image."""
        return tuple(self._kept["image"][:3])

    @property
    def positions(self):
        """Images of a training batch."""
        return self._section.rows

    def training(self, *, process=0, processes=1):
        """Endless batches (`bucketed.Bucketed`) of the training part."""
        chosen = tuple(self._section.randaugment)
        augment = randaugment.RandAugment(*chosen) if chosen else None
        batches = bucketed.Bucketed(
            dataclasses.replace(self._train_examples, augment=augment),
            rows=self._section.rows,
            lengths=LENGTHS,
            seed=self._seed,
            process=process,
            processes=processes,
        )
        LOG.info(
            "%s: %d images of %s, %d classes, %.1f batches an epoch",
            self.splits.train.name,
            len(self._train_examples),
            " × ".join(map(str, self.shape)),
            self.outputs,
            len(self._train_examples) / self._section.rows,
        )
        return batches

    def batches(self, evaluation, *, process=0, processes=1):
        """Batches of an `Evaluation` (`bucketed.Padded`); in filler rows all is 0, ``weight`` too."""
        return bucketed.Padded(
            evaluation.examples,
            rows=self._section.eval_batch,
            lengths=LENGTHS,
            process=process,
            processes=processes,
        )

    def from_texts(self, texts):
        """Images to predict, by the paths of their files (`files.load`).

        Raises:
            lwt.errors.DataError: a file that is not there, or no image; or it is not of the training's shape and type.
        """
        paths, size, kind = list(texts), self._section.image_size, self._kept["image"]
        images = np.zeros((len(paths), *self.shape), kind[3])
        for row, path in zip(images, paths, strict=True):
            try:
                image = files.fit(files.load(path), size=size, channels=self.shape[2])
            except ValueError as error:
                raise errors.DataError(f"{path}: {error}") from error
            if [*image.shape, image.dtype.name] != kind:
                raise errors.DataError(
                    f"{path} is {[*image.shape, image.dtype.name]}, and not {kind}, as the images of the training are"
                )
            row[...] = image
        examples = Examples(images, np.arange(len(images)), None, None, "")
        return supervised.Evaluation("images", paths, None, None, {}, examples)

    def example(self):
        """A training batch of zeros: its names, shapes and types."""
        count = self._section.rows
        return {
            "image": np.zeros((count, *self.shape), self._kept["image"][3]),
            "weight": np.zeros(count, np.float32),
            "label": np.zeros(count, np.int32),
        }

    def _source(self, name, *, split="train", fields=(), max_malformed=0.01):
        """Opens a source, decoded."""
        source = sources.load(name, split=split, fields=fields, max_malformed=max_malformed)
        return cache.decoded(
            source,
            size=self._section.image_size,
            channels=self._section.channels,
            label=self._section.label,
            max_malformed=max_malformed,
        )

    def _split_settings(self):
        return {"fields": (cache.IMAGE,), "load": self._source, "key": _pixels}

    def _open(self, name):
        source = self._source(name, split="test", max_malformed=self._section.max_malformed)
        sources.report(source)
        return source

    def _examples(self, source, references):
        found = source.records
        kind = [*found.images.shape[1:], found.images.dtype.name]
        if kind != self._kept["image"]:
            raise errors.DataError(
                f"{source.name} has images of {kind}, and not of {self._kept['image']}, as the training data: see "
                "data.image_size and data.channels"
            )
        return Examples(found.images, found.index, references, None, source.fingerprint)

    def _shown(self, number, record):
        return str(record.get("file", f"record {number}"))

    def _facts(self):
        images = self.splits.train.records.images
        return {"image": [*images.shape[1:], images.dtype.name]}


def _pixels(record, fields):
    """What two equal images share: a hash of their pixels."""
    del fields
    return hashlib.blake2b(np.ascontiguousarray(record[cache.IMAGE]), digest_size=16).digest()
