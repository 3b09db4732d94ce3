"""TensorFlow Datasets without TensorFlow: builder -> array_record files -> records by index.

A missing data set is downloaded and prepared in ``$TFDS_DATA_DIR`` (default ~/tensorflow_datasets). Records are read
when they are needed; bad UTF-8 is replaced, and an empty side becomes zero tokens.
"""

import collections.abc
import contextlib
import dataclasses
import importlib
import logging
import os

import numpy as np

from lwt import errors, extras
from lwt.data import sources

LOG = logging.getLogger(__name__)
DOWNLOAD_RETRIES = 4  # with doubling pauses; the default of 10 needs 200 s to report that there is no network


@dataclasses.dataclass(frozen=True)
class Records(collections.abc.Sequence):
    """A TFDS data source; its records hold str, numbers and arrays."""

    data: collections.abc.Sequence

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return {name: _plain(value) for name, value in self.data[index].items()}

    def __getitems__(self, indices):
        records = self.data.__getitems__(list(indices))
        return [{name: _plain(value) for name, value in record.items()} for record in records]


def read(name, split, *, fields, max_malformed, max_megabytes):
    """Opens one split of ``NAME`` or ``NAME/CONFIG``; slices such as ``train[:1000]`` work. See `sources.load`."""
    del max_malformed, max_megabytes  # TFDS checked the records when it prepared them
    builder = _prepared(name)
    if builder.info.splits and split.partition("[")[0] not in builder.info.splits and "+" not in split:
        raise errors.DataError(f"tfds:{name} has no split {split!r}; {errors.suggest(split, builder.info.splits)}")
    try:
        records = Records(builder.as_data_source(split))
    except NotImplementedError as error:  # prepared as tfrecord
        raise errors.DataError(
            f"tfds:{name} in {builder.data_path} cannot be read by index ({errors.first_line(error)}); prepare it as "
            "array_record files: set TFDS_DATA_DIR to another folder, or move that one away"
        ) from error
    except (ValueError, KeyError, OSError) as error:
        raise errors.DataError(f"tfds:{name}, split {split!r}: {errors.first_line(error)}") from error
    if not len(records):
        raise errors.DataError(f"tfds:{name}: split {split!r} has no records")
    there = tuple(builder.info.features)
    sources.need_fields(f"tfds:{name}", fields, there=there)
    return sources.Source(
        name=f"tfds:{name}@{split}",
        records=records,
        fields=there,
        fingerprint=sources.digest(builder.info.full_name, builder.info.dataset_size, split, len(records)),
        classes=tuple(getattr(builder.info.features["label"], "names", None) or ()) if "label" in there else (),
        notes=_notes(builder, name),
    )


def splits(name):
    """The splits of a builder; prepares it if necessary."""
    return sorted(_prepared(name).info.splits)


def _notes(builder, name):
    """Says which config is read if the name leaves it open."""
    configs = ", ".join(config.name for config in getattr(builder, "BUILDER_CONFIGS", ()))
    if "/" in name or "," not in configs:
        return ()
    return (f"tfds:{name} does not name a config: {builder.builder_config.name} is read, of {configs:.200}",)


def _builder(name):
    tfds = extras.load("tensorflow_datasets", f"tfds:{name}")
    from tensorflow_datasets.core import registered

    # TFDS registers its older data sets (glue, wmt*) package by package, and silently stops at the first with a missing
    # dependency. Those with text and images need none.
    for package in ("text", "translate", "image_classification"):
        try:
            importlib.import_module(f"tensorflow_datasets.{package}")
        except ImportError as error:
            LOG.warning("tfds: the data sets of tensorflow_datasets.%s are not available: %s", package, error)
    dataset, _, config = name.partition("/")
    try:
        return tfds.builder(name, file_format="array_record", data_dir=os.environ.get("TFDS_DATA_DIR"))
    except registered.DatasetNotFoundError as error:
        known = registered.list_imported_builders()
        raise errors.DataError(f"no tfds data set {dataset!r}; {errors.suggest(dataset, known)}") from error
    except Exception as error:  # whatever a name, a version or a builder's own code raises
        configs = ()
        with contextlib.suppress(Exception):
            configs = list(tfds.builder_cls(dataset).builder_configs)
        if config and configs and config.partition(":")[0] not in configs:
            message = f"tfds:{dataset} has no config {config!r}; {errors.suggest(config, configs)}"
            raise errors.DataError(message) from error
        message = errors.first_line(error).rpartition('}": ')[2]  # after the arguments of the builder
        raise errors.DataError(f"tfds:{name}: {message}; the form is tfds:NAME/CONFIG:VERSION@SPLIT") from error


def _prepared(name):
    """The builder `name`; downloads and prepares its data if necessary."""
    builder = _builder(name)
    if builder.is_prepared():
        return builder
    from tensorflow_datasets.core.download import downloader

    LOG.warning("tfds:%s is not in %s: downloading and preparing it", name, builder.data_path)
    if hasattr(downloader, "MAX_RETRIES"):
        downloader.MAX_RETRIES = DOWNLOAD_RETRIES
    try:
        builder.download_and_prepare()
    except Exception as error:  # whatever the network, the disk and the builder's code raise
        raise errors.DataError(
            f"tfds:{name} is not prepared in {builder.data_path} and could not be downloaded "
            f"({type(error).__name__}: {errors.first_line(error)}); set TFDS_DATA_DIR to where it is, or run with a "
            f"network: python -c \"from lwt.data import sources; sources.load('tfds:{name}')\""
        ) from error
    return builder


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return _plain(value.item())
    return value
