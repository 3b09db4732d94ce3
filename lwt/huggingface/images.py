"""Makes a run's config from a folder with a Vision Transformer."""

import logging
import pathlib

import numpy as np

from lwt import errors, files, registry
from lwt.data import labels
from lwt.huggingface import configs, reading

LOG = logging.getLogger(__name__)
SETTINGS = "preprocessor_config.json"
SCALE = 1 / 255  # of the pixels of an image


def fill(config, folder, *, new, section, weights):
    """Fills a run's config and writes the labels into the folder `new`; returns the weights, with a head.

    Args:
        config: the defaults; gets ``model``, ``data`` and ``task``.
        folder: the `pathlib.Path` of the model.
        section: the keys of ``config.model``.
        weights: flat dict.

    Raises:
        lwt.errors.CheckpointError: the images are prepared in another way than lwt does; names the key.
    """
    where = pathlib.Path(folder, reading.CONFIG)
    described = files.load_json(where)
    if "head/kernel" not in weights:
        classes = len(described.get("id2label") or ("", ""))
        LOG.info("%s: the model has no head; it gets one of zeros for %d classes", where, classes)
        weights |= {"head/kernel": np.zeros((section["width"], classes), np.float32)}
        weights |= {"head/bias": np.zeros(classes, np.float32)}
    names = configs.labels(described, rows=len(weights["head/bias"]), where=where)
    size, channels = section["image_size"], section["channels"]
    image = (size, size, channels, "uint8")
    files.write_json(pathlib.Path(new, labels.FILE), {"names": names, "image": image}, indent=None)
    config.model = section
    config.data.kind, config.data.image_size, config.data.channels = "images", size, channels
    config.data.eval_batch = 64
    mean, std = _normalisation(pathlib.Path(folder, SETTINGS), size=size, channels=channels)
    config.task = {"name": "classify_images", "mean": mean, "std": std}
    return weights


def _normalisation(path, *, size, channels):
    """``(mean, std)`` per channel of the settings at `path`, which must prepare images of `size` pixels as lwt does."""
    if not path.exists():
        raise errors.CheckpointError(f"{path} is missing; it has the mean and the deviation of the pixels")
    settings = files.load_json(path)
    if not settings.get("do_rescale", True) or abs(settings.get("rescale_factor", SCALE) - SCALE) > 1e-6:
        raise errors.CheckpointError(f"{path}: the pixels must be multiplied by rescale_factor={SCALE:.6f}")
    crop = settings.get("do_center_crop") and "crop_size" in settings
    key = "crop_size" if crop else "size"
    given = settings.get(key, size) if crop or settings.get("do_resize", True) else size
    sides = {*given.values()} if isinstance(given, dict) else {given}
    if sides != {size}:
        raise errors.CheckpointError(f"{path}: {key}={given!r} must be the model's image_size, {size}")
    if not settings.get("do_normalize", True):
        return (0.0,), (1.0,)
    found = []
    for key in ("image_mean", "image_std"):
        numbers = settings.get(key)
        if (
            not isinstance(numbers, list)
            or len(numbers) != channels
            or not all(registry.fits(x, float) for x in numbers)
        ):
            raise errors.CheckpointError(f"{path}: {key}={numbers!r:.60} must be {channels} numbers, one per channel")
        found.append(tuple(map(float, numbers)))
    return tuple(found)
