"""A human body in motion as sixteen segments.

Walking is Boulic's model (R. Boulic, N. M. Thalmann, D. Thalmann, "A global human walking model with real-time
kinematic personification", The Visual Computer 6:344-358, 1990); segment lengths are those of V. C. Chen, "The
Micro-Doppler Effect in Radar". In the frame of the body, x points forward, y left and z up, in metres.

Deviations from Boulic: the pelvis rises and falls so that the lower foot stays on the ground, which replaces his
vertical translation; his forward tilt of the pelvis leans the whole trunk; his ankle curve for relative speeds from
0.5 to 1.3 is also used above.
"""

import dataclasses

import numpy as np
from scipy import interpolate

from lwt import errors

LENGTHS = {  # fractions of the height
    "head": 0.130,
    "half_shoulder": 0.259 / 2,
    "torso": 0.288,
    "half_hip": 0.191 / 2,
    "thigh": 0.245,
    "shank": 0.246,
    "foot": 0.143,
    "upper_arm": 0.188,
    "lower_arm": 0.152,
}
LEG = 0.491  # fraction of the height; Boulic's Ht
PAIRED = ("shoulder", "upper_arm", "lower_arm", "hip", "thigh", "shank", "foot")
SEGMENTS = ("head", "torso", *(f"{side}_{name}" for name in PAIRED for side in ("left", "right")))
RADII = {  # half-axes a = b of the ellipsoids, metres
    **{"head": 0.10, "torso": 0.15, "shoulder": 0.06, "upper_arm": 0.06, "lower_arm": 0.06},
    **{"hip": 0.07, "thigh": 0.07, "shank": 0.06, "foot": 0.05},
}
SLOWEST, FASTEST = 0.5, 3.0  # the relative speeds of the curves below


@dataclasses.dataclass(frozen=True)
class Pose:
    """The pose of a body over n instants, in degrees and metres. Each field broadcasts to [n], or to [2 n] (left and
    right) where it says so."""

    hip: np.ndarray | float = 0.0  # [2 n] the thigh, forward
    knee: np.ndarray | float = 0.0  # [2 n] the shank against the thigh, backward
    ankle: np.ndarray | float = 0.0  # [2 n] the toes above the right angle to the shank
    shoulder: np.ndarray | float = 0.0  # [2 n] the upper arm, forward
    elbow: np.ndarray | float = 0.0  # [2 n] the lower arm against the upper arm, forward
    lean: np.ndarray | float = 0.0  # the trunk, forward
    pelvis_torsion: np.ndarray | float = 0.0  # about the vertical, left side back
    pelvis_tilt: np.ndarray | float = 0.0  # about x, right side up
    thorax_torsion: np.ndarray | float = 0.0  # about the vertical, at the shoulders
    forward: np.ndarray | float = 0.0  # the pelvis
    lateral: np.ndarray | float = 0.0  # the pelvis
    turn: np.ndarray | float = 0.0  # the whole body about its feet, forward
    lift: np.ndarray | float = 0.0  # the feet above the ground
    breath: np.ndarray | float = 0.0  # the middle of the torso, forward


def segments(pose, height, *, instants):
    """``(centres [16 3 n], axes [16 3 n])`` of the `SEGMENTS` of a person of `height` metres, at n = `instants`.

    An axis leads from one end of a segment to the other.
    """
    size = {name: fraction * height for name, fraction in LENGTHS.items()}
    sides = np.array([[1.0], [-1.0]])  # left, right
    one, two = (instants,), (2, instants)
    lean, torsion, tilt, thorax, turn = (
        np.radians(np.broadcast_to(angle, one))
        for angle in (pose.lean, pose.pelvis_torsion, pose.pelvis_tilt, pose.thorax_torsion, pose.turn)
    )
    hip, knee, ankle, shoulder, elbow = (
        np.radians(np.broadcast_to(angle, two))
        for angle in (pose.hip, pose.knee, pose.ankle, pose.shoulder, pose.elbow)
    )
    upright = _points(np.sin(lean), 0, np.cos(lean))
    across = sides * size["half_hip"]
    axes = {
        "torso": size["torso"] * upright,
        "head": size["head"] * upright,
        "hip": across[..., None]
        * _points(-np.sin(torsion) * np.cos(tilt), np.cos(torsion) * np.cos(tilt), -np.sin(tilt)),
        "thigh": size["thigh"] * _hanging(hip),
        "shank": size["shank"] * _hanging(hip - knee),
        "foot": size["foot"] * _points(np.cos(hip - knee + ankle), 0, np.sin(hip - knee + ankle)),
        "upper_arm": size["upper_arm"] * _hanging(shoulder),
        "lower_arm": size["lower_arm"] * _hanging(shoulder + elbow),
    }
    across = sides * size["half_shoulder"]
    axes["shoulder"] = _points(-across * np.sin(thorax), across * np.cos(thorax), 0)

    pelvis = np.zeros((3, instants))
    neck = pelvis + axes["torso"]
    starts = {"torso": pelvis, "head": neck}
    for root, chain in ((pelvis, ("hip", "thigh", "shank", "foot")), (neck, ("shoulder", "upper_arm", "lower_arm"))):
        place = np.broadcast_to(root, (2, 3, instants))
        for name in chain:
            starts[name] = place
            place = place + axes[name]

    axes = np.concatenate([axes[name].reshape(-1, 3, instants) for name in ("head", "torso", *PAIRED)])
    starts = np.concatenate([starts[name].reshape(-1, 3, instants) for name in ("head", "torso", *PAIRED)])
    starts[:, 2] -= _lowest(starts, axes)
    if np.any(turn):
        starts, axes = _turned(starts, turn), _turned(axes, turn)
        starts[:, 2] -= _lowest(starts, axes)
    centres = starts + axes / 2
    centres[:, 0] += pose.forward
    centres[:, 1] += pose.lateral
    centres[:, 2] += pose.lift
    centres[SEGMENTS.index("torso"), 0] += pose.breath
    return centres, axes


def walk(t, height, *, relative_speed, phase=0.0):
    """Boulic's walk, forward from x = 0.

    Args:
        t: [n] seconds.
        height: metres.
        relative_speed: RV, speed over leg length, 1/s; 0.5 to 3, naturally about 1.5.
        phase: of the cycle at t = 0; at 0 the left heel strikes the ground.

    Raises:
        lwt.errors.DataError: the relative speed is out of range.
    """
    if not SLOWEST <= relative_speed <= FASTEST:
        raise errors.DataError(f"a relative speed of {relative_speed} is outside {SLOWEST} to {FASTEST}")
    cycle = 1.346 / np.sqrt(relative_speed)  # seconds
    support = 0.752 - 0.143 / cycle  # of the cycle
    p = t / cycle + phase
    legs = np.stack([p, p + 0.5])  # the right leg is half a cycle behind the left

    def wave(at):
        return np.sin(2 * np.pi * at)

    return Pose(
        hip=curve(_hip(relative_speed), legs),
        knee=curve(_knee(relative_speed), legs),
        ankle=curve(((0, -3), (0.08, -18), (0.5, 8), (support, -20), (0.85, -3)), legs),
        shoulder=3 - 9.88 * relative_speed * (0.5 + np.cos(2 * np.pi * legs)),
        elbow=curve(_elbow(relative_speed), legs),
        lean=-2 + 2 * wave(2 * p - 0.1),
        pelvis_torsion=-4 * relative_speed * np.cos(2 * np.pi * p),
        pelvis_tilt=_tilt(p, 1.66 * relative_speed),
        thorax_torsion=curve(((0.1, 4 / 3), (0.4, -4.5 / 3), (0.6, -4 / 3), (0.9, 4.5 / 3)), p) * relative_speed,
        forward=relative_speed * LEG * height * t - 0.021 * wave(2 * p + 2 * (0.625 - support)),
        lateral=-0.032 * wave(p - 0.1),
    )


def curve(points, phase):
    """Evaluates, at `phase` modulo 1, the periodic monotone cubic through (phase, value) points.

    Of several points at one phase (modulo 1), the first counts.
    """
    merged = {}
    for at, value in points:
        merged.setdefault(round(at % 1.0, 9) % 1.0, value)
    at = np.array(sorted(merged))
    values = np.array([merged[a] for a in at])
    around = np.concatenate([at - 1, at, at + 1])  # slopes depend on two neighbours on either side
    return interpolate.PchipInterpolator(around, np.tile(values, 3))(phase % 1.0)


def _hip(speed):
    if speed < 1.3:
        return ((-0.1, 25), (0.5, -15), (0.9, 25))
    k = (speed - 1.3) / 1.7
    return ((-0.1 + 0.2 * k, 25 + 5 * k), (0.5, -15), (0.9, 25 + 6 * k))


def _knee(speed):
    k = max(0.0, (speed - 1.3) / 1.7)
    return ((0.17 - 0.05 * k, 3 + 22 * k), (0.4, 3), (0.75 - 0.05 * k, 70 - 5 * k), (1 - 0.03 * k, 3 + 3 * k))


def _elbow(speed):
    if speed < 1.3:
        q = (speed - 0.5) / 0.8
        return ((0.05, 8 * q + 6), (0.5 + 0.01 * q, 24 * q + 20), (0.9, 9 * q + 8))
    k = (speed - 1.3) / 1.7
    return ((0.05, 14 - 6 * k), (0.51 + 0.04 * k, 44 + 26 * k), (0.9 - 0.1 * k, 17 - 6 * k))


def _tilt(phase, size):
    """Pieces of cosines that meet at .15, .5 and .65 of the cycle, from -2 `size` to 2 `size`."""
    breaks = np.array([0, 0.15, 0.5, 0.65, 1])
    at = phase % 1.0
    piece = np.searchsorted(breaks, at, side="right") - 1
    begin, end = breaks[piece], breaks[piece + 1]
    swing = np.cos(np.pi * ((at - begin) / (end - begin) + (piece % 2)))  # from 1 to -1, or back
    return size * (swing - 1) * np.where(piece < 2, 1, -1)


def _points(x, y, z):
    """[... n] coordinates -> [... 3 n]."""
    return np.stack(np.broadcast_arrays(x, y, z), axis=-2)


def _hanging(angle):
    """Unit vectors that point down, turned forward by `angle`."""
    return _points(np.sin(angle), 0, -np.cos(angle))


def _turned(vectors, angle):
    x, y, z = vectors[:, 0], vectors[:, 1], vectors[:, 2]
    return _points(x * np.cos(angle) + z * np.sin(angle), y, z * np.cos(angle) - x * np.sin(angle))


def _lowest(starts, axes):
    """[n] the height of the lowest ankle or toe at each instant."""
    ankles, feet = starts[-2:, 2], axes[-2:, 2]  # the feet come last
    return np.minimum(ankles, ankles + feet).min(axis=0)
