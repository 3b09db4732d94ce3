"""A real recording: two millimetre-wave radars watch one person for ten minutes, with 99 events of activity.

It is the micro-Doppler part of imec's PARrad recordings of 2019 (one subject, a repeated routine: scores say little
about other people). Two files identify the folder:

    mdoppler.npz     ``radar14`` (77 GHz) and ``radar68`` (60 GHz), float32 [frames 128], 90 ms per frame, zero Doppler
                     in bin 64
    events.csv       one line per event: ``start_frame`` (of the command), ``activity`` and ``group``

An event is a record ``{"image": float32 [64 64 2], "label": group, "activity": ...}``: Doppler bins 32 to 95 (rows) of
the 64 frames that start 0.7 s after the command, one channel per radar. The median of every bin over the recording is
subtracted, since it does not move. The recording cuts off the last event, which is padded without movement.

Splits for cross-validation by event: ``fold0`` ... ``fold4`` hold every fifth event, ``rest0`` ... ``rest4`` all
others; ``all`` holds them all. Events start about every six seconds, so a window may hold the first one or two seconds
of the next.
"""

import csv

import numpy as np

from lwt import errors, files
from lwt.data import arrays, labels, sources

RECORDING, EVENTS, GROUPS = "mdoppler.npz", "events.csv", "labels_group.txt"
RADARS = ("radar14", "radar68")
FOLDS = 5
FRAMES = (8, 72)  # after the command: movements begin 1 to 3 s later
BINS = (32, 96)
RANGE = (-200.0, 1500.0)  # of a bin minus its median, in the recording's logarithmic units: becomes 0 to 1
STILL = RANGE[0] / (RANGE[0] - RANGE[1])  # what the median becomes
FIELDS = ("image", "label", "activity")


def is_recording(folder):
    """Whether a folder holds a recording of this form."""
    return all((folder / name).is_file() for name in (RECORDING, EVENTS))


def splits():
    """The splits of a recording."""
    return ["all", *(f"{part}{fold}" for part in ("fold", "rest") for fold in range(FOLDS))]


def load(folder, name, *, split, fields):
    """One split of the recording in `folder`, as the source ``folder:NAME``; see `lwt.data.sources.load`.

    Raises:
        lwt.errors.DataError: there is no such split, or a file is damaged.
    """
    if split not in splits():
        raise errors.DataError(f"folder:{name} has no split {split!r}; {errors.suggest(split, splits())}")
    sources.need_fields(f"folder:{name}", fields, there=FIELDS)
    events, maps = _events(folder / EVENTS), _maps(folder / RECORDING)
    for i, (start, activity, group) in enumerate(events):
        if not 0 <= start < len(maps) or not activity or not group:
            raise errors.DataError(
                f"{folder / EVENTS}, event {i + 1}: start_frame {start} must be below {len(maps)}, the frames of the "
                f"recording, and activity {activity!r} and group {group!r} must not be empty"
            )
    records = [
        {"image": window(maps, start), "label": group, "activity": activity}
        for i, (start, activity, group) in enumerate(events)
        if split == "all" or (i % FOLDS == int(split[4:])) == split.startswith("fold")
    ]
    hashes = [files.sha256(folder / file) for file in (RECORDING, EVENTS)]
    return sources.Source(
        name=f"folder:{name}@{split}",
        records=records,
        fields=FIELDS,
        fingerprint=sources.digest("radar_parrad 1", *hashes, split),
        classes=labels.read(folder / GROUPS),
    )


def window(maps, start):
    """Cuts the map [64 64 2] of the event whose command is at frame `start` out of a recording [frames 64 2]."""
    first, last = (start + offset for offset in FRAMES)
    cut = maps[first:last].transpose(1, 0, 2)
    return np.pad(cut, ((0, 0), (0, last - first - cut.shape[1]), (0, 0)), constant_values=STILL)


def _maps(path):
    """[frames 64 2]: every bin minus its median over all frames, cropped, clipped and scaled to [0, 1]."""
    try:
        frames = np.stack([*arrays.load(path, RADARS).values()], axis=-1).astype(np.float32)
    except ValueError as error:
        raise errors.DataError(f"{path}: {' and '.join(RADARS)} must be numbers of one shape: {error}") from error
    if frames.ndim != 3 or frames.shape[1] < BINS[1]:
        raise errors.DataError(f"{path}: arrays of shape {frames.shape[:-1]} must be [frames 128]")
    moving = (frames - np.median(frames, axis=0))[:, slice(*BINS)]
    return (np.clip(moving, *RANGE) - RANGE[0]) / (RANGE[1] - RANGE[0])


def _events(path):
    """[(start frame, activity, group)]"""
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            rows = [(int(row["start_frame"]), row["activity"], row["group"]) for row in csv.DictReader(file)]
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise errors.DataError(f"{path} needs the columns start_frame, activity, group: {error!r}") from error
    if not rows:
        raise errors.DataError(f"{path} has no events")
    return rows
