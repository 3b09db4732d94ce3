"""A real recording: two millimetre-wave radars watch ONE person for ten minutes, with 99 events of activity.

It is the micro-Doppler part of imec's PARrad recordings of 2019 (one subject, a repeated routine: scores say little
about other people). The folder is known by its two files:

    mdoppler.npz     ``radar14`` (77 GHz) and ``radar68`` (60 GHz), float32 [frames 128], 90 ms a frame, zero Doppler
                     in bin 64
    events.csv       a line an event: ``start_frame``, at which the activity was asked for, ``activity`` and ``group``

An event is a record ``{"image": float32 [64 64 2], "label": group, "activity": ...}``: Doppler bins 32 to 95 (rows) of
the 64 frames from 0.7 s after the command on, a channel for each radar. What does not move is taken away: every bin's
median over the recording. The last event, which the recording cuts off, ends without movement.

Splits for cross-validation by event: ``fold0`` ... ``fold4`` hold every fifth event, ``rest0`` ... ``rest4`` all
others; ``all`` holds them all. Events follow each other every six seconds or so, and a window may hold the first
second or two of the next one.
"""

import csv
import zipfile

import numpy as np

from lwt import errors, files
from lwt.data import sources

RECORDING, EVENTS, GROUPS = "mdoppler.npz", "events.csv", "labels_group.txt"
RADARS = ("radar14", "radar68")
FOLDS = 5
FRAMES = (8, 72)  # after the command: movements begin 1 to 3 s behind it
BINS = (32, 96)
RANGE = (-200.0, 1500.0)  # about a bin's median, in the recording's logarithmic units: becomes 0 to 1
STILL = RANGE[0] / (RANGE[0] - RANGE[1])  # what the median becomes
FIELDS = ("image", "label", "activity")


def is_recording(folder):
    """Whether a folder holds a recording of this form."""
    return all((folder / name).is_file() for name in (RECORDING, EVENTS))


def splits():
    """The splits of a recording."""
    return ["all", *(f"{part}{fold}" for part in ("fold", "rest") for fold in range(FOLDS))]


def load(folder, name, split, *, fields):
    """One split of a recording; see `lwt.data.sources.load`.

    Args:
        folder: its path.
        name: what to call it.

    Raises:
        lwt.errors.DataError: no such split, or a file that is damaged.
    """
    if split not in splits():
        raise errors.DataError(f"folder:{name} has no split {split!r}; {errors.suggest(split, splits())}")
    sources.need_fields(f"folder:{name}", fields, there=FIELDS)
    events, maps = _events(folder / EVENTS), _maps(folder / RECORDING)
    records = []
    for i, (start, activity, group) in enumerate(events):
        chosen = split == "all" or (i % FOLDS == int(split[4:])) == split.startswith("fold")
        if chosen:
            records.append({"image": window(maps, start), "label": group, "activity": activity})
    hashes = [files.sha256(folder / file) for file in (RECORDING, EVENTS)]
    groups = folder / GROUPS
    return sources.Source(
        name=f"folder:{name}@{split}",
        records=records,
        fields=FIELDS,
        fingerprint=sources.digest("radar_parrad 1", *hashes, split),
        classes=tuple(groups.read_text(encoding="utf-8").split()) if groups.is_file() else (),
    )


def window(maps, start):
    """The map `[64 64 2]` of the event that was asked for at frame `start`, from the `[frames 64 2]` of a recording."""
    first, last = (start + offset for offset in FRAMES)
    cut = maps[first:last].transpose(1, 0, 2)
    return np.pad(cut, ((0, 0), (0, last - first - cut.shape[1]), (0, 0)), constant_values=STILL)


def _maps(path):
    """`[frames 64 2]`: every bin without its median over all frames, cropped, clipped and scaled to [0, 1]."""
    try:
        with np.load(path, allow_pickle=False) as file:
            radars = [file[name] for name in RADARS]
        frames = np.stack(radars, axis=-1).astype(np.float32)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise errors.DataError(f"{path} should hold the arrays {' and '.join(RADARS)} [frames 128]: {error}") from error
    if frames.ndim != 3 or frames.shape[1] < BINS[1]:
        raise errors.DataError(f"{path}: arrays of the form {frames.shape[:-1]} should be [frames 128]")
    moving = (frames - np.median(frames, axis=0))[:, slice(*BINS)]
    return (np.clip(moving, *RANGE) - RANGE[0]) / (RANGE[1] - RANGE[0])


def _events(path):
    """[(start frame, activity, group)]"""
    with open(path, newline="", encoding="utf-8") as file:
        try:
            rows = [(int(row["start_frame"]), row["activity"], row["group"]) for row in csv.DictReader(file)]
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise errors.DataError(f"{path} needs the columns start_frame, activity, group: {error!r}") from error
    if not rows:
        raise errors.DataError(f"{path} has no events")
    return rows
