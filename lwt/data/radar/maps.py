"""Micro-Doppler maps of people: ``generated:radar_har``, made from a model of the body and of the radar.

    generated:radar_har,difficulty=hard,size=1600,seed=0

A record is ``{"image": uint8 [128 128 1], "label": one of eight activities}``: Doppler from -4 m/s (row 0) to +4 m/s,
towards the radar counting as positive, over the four seconds of a clip. The radar is a continuous wave at 24 GHz: an
FMCW radar after its range FFT, with the range bins summed, sees the same. The body's sixteen segments are ellipsoids

    s(t) = Σ_i sqrt(σ_i) / R_i² · exp(-j 4π R_i / λ) + clutter + noise

after V. C. Chen, "The Micro-Doppler Effect in Radar"; `body` and `activities` say how they move.

Every record has its own random generator, seeded by (seed, split, index): a longer set begins with the shorter one,
and no record is in two splits.
"""

import collections.abc
import dataclasses
import logging

import numpy as np

from lwt import errors, files
from lwt.data import arrays, sources
from lwt.data.radar import activities, body

LOG = logging.getLogger(__name__)
VERSION = 1  # of the maps: change it with them, or the cache returns old ones
SIZES = {"train": 1_600, "validation": 400, "test": 800}  # default records per split

WAVELENGTH = 0.0125  # metres: 24 GHz
PULSE_RATE = 2000  # echoes per second; unambiguous up to 6.2 m/s
DURATION = 4.0  # seconds
RADAR_HEIGHT = 1.2  # metres
CLUTTER = 3.0  # amplitude of what does not move, over the rms of the echo
WINDOW = 400  # samples of a Hann window: 0.2 s
SIZE = 128  # frames, and Doppler bins, of a map
FASTEST = 4.0  # m/s at the edge of a map
FLOOR = -45.0  # dB relative to the maximum of the clip; black in a map
RADII = np.array([body.RADII[name.split("_", 1)[1] if "_" in name else name] for name in body.SEGMENTS])


@dataclasses.dataclass(frozen=True)
class Maps(collections.abc.Sequence):
    """The maps of a split; record i shows activity ``i % 8``."""

    images: np.ndarray  # [records 128 128] uint8
    classes: tuple = activities.ACTIVITIES
    version: int = VERSION

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {"image": self.images[index][..., None], "label": self.classes[index % len(self.classes)]}


def radar_har(split, *, difficulty="hard", size=1600, seed=0):
    """`size` maps, made at 30 ms each and kept in the cache folder (``$LWT_CACHE``, by default ``~/.cache/lwt``).

    Args:
        difficulty: "easy" (a linear classifier tells the activities apart) or "hard" (-15 to 5 dB, turned by up to 70
            degrees, cut off by the ends of the clip).

    Raises:
        lwt.errors.DataError: an unknown difficulty.
    """
    if difficulty not in activities.SETTINGS:
        suggestion = errors.suggest(difficulty, activities.SETTINGS)
        raise errors.DataError(f"generated:radar_har: difficulty={difficulty!r}; {suggestion}")
    key = sources.digest("radar_har", VERSION, difficulty, split, size, seed)
    path = files.cache_folder() / f"radar_har-{key}.npy"
    images = _kept(path, size)
    if images is None:
        LOG.info("making %d %s radar maps of split %s", size, difficulty, split)
        images = np.stack([make(difficulty, split, index=index, seed=seed) for index in range(size)])
        _keep(path, images)
    return Maps(images)


def make(difficulty, split, *, index, seed=0):
    """Makes one map, [128 128] uint8."""
    rng = np.random.default_rng([seed, list(SIZES).index(split), index])
    activity = activities.ACTIVITIES[index % len(activities.ACTIVITIES)]
    t = times()
    scene = activities.draw(activity, rng, setting=activities.SETTINGS[difficulty], t=t)
    return spectrogram(received(*echo(scene, t), rng=rng, snr=scene.snr))


def times():
    """[8000] the seconds of a clip at which echoes are received."""
    return np.arange(round(DURATION * PULSE_RATE)) / PULSE_RATE


def echo(scene, t):
    """``(amplitudes [16 n], ranges [16 n] in metres)`` of the segments' echoes at `t` ([n] seconds)."""
    centres, axes = body.segments(scene.pose, scene.height, instants=len(t))
    to_radar = np.radians(scene.heading)
    cosine, sine = -np.cos(to_radar), -np.sin(to_radar)  # the person's direction; the radar is at x = 0
    x = scene.distance + cosine * centres[:, 0] - sine * centres[:, 1]
    y = sine * centres[:, 0] + cosine * centres[:, 1]
    z = centres[:, 2] - RADAR_HEIGHT
    squared = x * x + y * y + z * z
    along = (cosine * axes[:, 0] - sine * axes[:, 1]) * x + (sine * axes[:, 0] + cosine * axes[:, 1]) * y
    length = np.sqrt((axes[:, :, :1] ** 2).sum(1))  # [16 1], constant
    cosine_squared = ((along + axes[:, 2] * z) / length) ** 2 / squared
    return np.sqrt(cross_section(RADII[:, None], length / 2, cosine_squared=cosine_squared)) / squared, np.sqrt(squared)


def cross_section(a, c, *, cosine_squared):
    """Backscatter of an ellipsoid of half-axes a, a and c, in m²: ``σ = π a⁴ c² / (a² sin²θ + c² cos²θ)²``.

    θ is the angle between the axis of c and the line of sight.
    """
    return np.pi * a**4 * c**2 / (a**2 * (1 - cosine_squared) + c**2 * cosine_squared) ** 2


def received(amplitudes, ranges, *, rng, snr):
    """[n] complex64: the sum of the echoes [16 n], clutter, and white noise `snr` dB below the echoes of the clip."""
    phase = ((-4 * np.pi / WAVELENGTH) * ranges % (2 * np.pi)).astype(np.float32)  # float32 suffices below 2π
    amplitudes = amplitudes.astype(np.float32)
    signal = (amplitudes * np.cos(phase)).sum(0) + 1j * (amplitudes * np.sin(phase)).sum(0)
    rms = np.sqrt(np.mean(np.abs(signal) ** 2))
    noise = rng.standard_normal((2, len(signal)), np.float32) * (rms * 10 ** (-snr / 20) / np.sqrt(2))
    clutter = CLUTTER * rms * np.exp(2j * np.pi * rng.uniform())
    return (signal + noise[0] + 1j * noise[1] + clutter).astype(np.complex64)


def spectrogram(signal):
    """[n] complex -> map [128 128] uint8.

    Subtracts the mean (what does not move), transforms Hann windows, and scales the power within ±4 m/s from
    0 (-45 dB below the maximum) to 255 (0 dB).
    """
    signal = signal - signal.mean()
    starts = np.linspace(0, len(signal) - WINDOW, SIZE).round().astype(int)
    frames = np.lib.stride_tricks.sliding_window_view(signal, WINDOW)[starts]
    power = np.abs(np.fft.fft(frames * np.hanning(WINDOW + 1)[:-1].astype(np.float32))) ** 2
    reach = round(2 * FASTEST / WAVELENGTH * WINDOW / PULSE_RATE)  # bins on either side: 128 of 5 Hz
    power = np.roll(power, reach, axis=1)[:, : 2 * reach].reshape(SIZE, SIZE, -1).mean(-1).T
    decibels = 10 * np.log10(np.maximum(power / power.max(), 10 ** (FLOOR / 10)))
    return np.round(255 * (1 - decibels / FLOOR)).astype(np.uint8)


def _kept(path, size):
    """The maps in a cache file; None if it is missing or damaged."""
    try:
        images = arrays.mapped(path)
        if images.shape != (size, SIZE, SIZE) or images.dtype != np.uint8:
            raise ValueError(f"{images.dtype} {images.shape}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        LOG.warning("the cache %s is damaged (%s); making the maps again", path, error)
        return None
    return images


def _keep(path, images):
    """Writes a cache file; if it cannot be written, the next run makes the maps again."""
    try:
        with files.replacing(path, checked=True) as temporary, open(temporary, "wb") as file:
            np.save(file, images)
    except OSError as error:
        LOG.warning("the radar maps are not cached: %s", error)
