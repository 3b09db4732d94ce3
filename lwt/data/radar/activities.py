"""Eight activities of a person in front of a radar, drawn at random.

Walking is Boulic's model. The other movements are this project's own: joints move along minimum-jerk ramps.
"""

import dataclasses

import numpy as np

from lwt.data.radar import body

ACTIVITIES = ("walk", "sit_down", "stand_up", "pick_up", "drink", "fall", "punch", "jump")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Ranges of uniform draws.

    Attributes:
        snr: dB, see `maps.received`.
        heading: degrees by which the person may turn away from the line to the radar, either way.
        tempo: factor on the pace of everything but a walk.
        start: second of the clip in which the activity starts; below 0, before the clip. Walks, punches and jumps
            fill the whole clip.
    """

    snr: tuple
    heading: float
    tempo: tuple
    start: tuple


SETTINGS = {
    "easy": Setting(snr=(5, 25), heading=35, tempo=(0.75, 1.3), start=(0.4, 0.8)),
    "hard": Setting(snr=(-15, 5), heading=70, tempo=(0.65, 1.5), start=(-0.3, 1.9)),
}


@dataclasses.dataclass(frozen=True)
class Scene:
    """The person of a clip, and the place."""

    pose: body.Pose
    height: float  # metres
    distance: float  # metres over the ground to the radar, at the start
    heading: float  # degrees between the direction the person faces and the direction of the radar
    snr: float  # dB, see `maps.received`


def draw(activity, rng, *, setting, t):
    """Draws a `Scene` of one of the `ACTIVITIES` by a `Setting`, over the instants `t` ([n] seconds) of a clip."""
    height, snr = rng.uniform(1.55, 1.92), rng.uniform(*setting.snr)
    heading = rng.uniform(-setting.heading, setting.heading)
    distance = rng.uniform(2.0, 4.5)
    start, tempo = rng.uniform(*setting.start), rng.uniform(*setting.tempo)
    if activity == "walk":
        speed = rng.uniform(0.9, 2.0)
        pose = body.walk(t, height, relative_speed=speed, phase=rng.uniform())
        if rng.uniform() < 0.5:
            distance = max(rng.uniform(6.0, 9.0), pose.forward[-1] + 1.0)  # do not walk into the radar
        else:
            heading += 180.0
    else:
        pose = MOTIONS[activity]((t - start) * tempo, rng)
    sway, breath = rng.uniform(0, 2 * np.pi, size=2)
    pose = dataclasses.replace(
        pose,
        forward=pose.forward + 0.006 * np.sin(2 * np.pi * 0.35 * t + sway),
        breath=0.004 * np.sin(2 * np.pi * rng.uniform(0.2, 0.33) * t + breath),
    )
    return Scene(pose, height, distance, heading, snr)


def ramp(t, duration):
    """Rises from 0 at t = 0 to 1 at `duration`, at rest at both ends: ``10u³ - 15u⁴ + 6u⁵``."""
    u = np.clip(t / duration, 0.0, 1.0)
    return u**3 * (10 + u * (6 * u - 15))


def _seated(u):
    """The pose between standing (0) and sitting (1)."""
    lean = 42 * np.sin(np.pi * u).clip(0) ** 1.3 + 5 * u
    return body.Pose(hip=88 * u, knee=90 * u, lean=lean, forward=-0.42 * u)


def _pick_up(t, rng):
    u = _there_and_back(t, 1.1, hold=rng.uniform(0.1, 0.5))
    arm = _one_arm(rng)
    return body.Pose(**_crouch(rng.uniform(20, 60) * u), lean=78 * u, shoulder=arm * 85 * u, elbow=10.0)


def _drink(t, rng):
    u = _there_and_back(t, 1.0, hold=rng.uniform(0.6, 1.1))
    arm = _one_arm(rng)
    return body.Pose(shoulder=arm * 42 * u, elbow=10 + arm * 118 * u)


def _fall(t, rng):
    way, duration = rng.choice([-1.0, 1.0]), rng.uniform(0.75, 1.15)
    u = ramp(t, duration)
    turn = 88 * way * np.clip(t / duration, 0, 1) ** 2.2
    return body.Pose(**_crouch(35 * np.sin(np.pi * u)), shoulder=80 * u, elbow=10.0, turn=turn)


def _punch(t, rng):
    arms = rng.uniform(0.9, 1.7) * t + np.array([[0.0], [0.5]])  # the second is half a cycle behind
    reach = 0.5 - 0.5 * np.cos(2 * np.pi * arms)
    return body.Pose(shoulder=25 + 60 * reach, elbow=110 - 95 * reach)


def _jump(t, rng):
    cycles = (rng.uniform(0.7, 1.1) * t) % 1.0
    on_ground = 0.68  # of a period
    flight = ((cycles - on_ground) / (1 - on_ground)).clip(0)
    knee = 55 * np.sin(np.pi * np.minimum(cycles / on_ground, 1.0))
    swing = -40 * np.sin(2 * np.pi * cycles)  # back in the crouch, forward in the air
    return body.Pose(**_crouch(knee), shoulder=swing, elbow=20.0, lift=0.25 * 4 * flight * (1 - flight))


def _crouch(knee):
    """Bends the knees, and the hips so that the feet stay below the pelvis."""
    return {"hip": knee / 2, "knee": knee}


def _there_and_back(t, duration, *, hold):
    return ramp(t, duration) - ramp(t - duration - hold, duration)


def _one_arm(rng):
    """[2 1]: 1 for the arm that moves, 0 for the other."""
    return np.eye(2)[rng.integers(2)][:, None]


MOTIONS = {  # ([n] seconds since the start at tempo 1, random generator) -> `body.Pose`
    "sit_down": lambda t, rng: _seated(ramp(t, 1.5)),
    "stand_up": lambda t, rng: _seated(1 - ramp(t, 1.5)),
    "pick_up": _pick_up,
    "drink": _drink,
    "fall": _fall,
    "punch": _punch,
    "jump": _jump,
}
