"""The generated radar maps: a body that moves as Boulic says, echoes of the right Doppler, splits that are disjoint."""

import dataclasses

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources
from lwt.data.radar import activities, body, maps

T = maps.times()
CLEAN = 60.0  # dB
TORSO = body.SEGMENTS.index("torso")
BIN = maps.PULSE_RATE / maps.WINDOW * maps.WAVELENGTH / 2  # m/s of a bin of the transform, two of which are a row
VELOCITIES = BIN * np.arange(-maps.SIZE, maps.SIZE).reshape(maps.SIZE, 2).mean(1)


def scene(pose, **more):
    return activities.Scene(**{"pose": pose, "height": 1.75, "distance": 8.0, "heading": 0.0, "snr": CLEAN, **more})


def picture(of, *, only=slice(None), snr=CLEAN):
    """A scene's map as dB, and the same from some of the segments alone."""
    amplitudes, ranges = maps.echo(of, T)
    image = maps.spectrogram(maps.received(amplitudes[only], ranges[only], rng=np.random.default_rng(0), snr=snr))
    return maps.FLOOR * (1 - image / 255)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("heading", [0.0, 40.0, 180.0])
def test_the_torso_s_doppler_is_that_of_its_speed(heading):
    """2v/λ, in every frame, within a bin: found in the map, expected from the place of the torso alone."""
    distance = 8.0 if heading < 90 else 3.0
    walker = scene(body.walk(T, 1.75, relative_speed=1.5), heading=heading, distance=distance)
    _, ranges = maps.echo(walker, T)
    velocity = -np.gradient(ranges[TORSO], T)
    middles = np.linspace(0, len(T) - maps.WINDOW, maps.SIZE) + maps.WINDOW / 2
    frames = picture(walker, only=[TORSO])
    found = VELOCITIES[frames.argmax(axis=0)]
    bin_width = np.diff(VELOCITIES)[0]
    assert bin_width == pytest.approx(0.0625)
    assert np.abs(found - velocity[middles.astype(int)]).max() < 1.5 * bin_width  # half a bin for the bin's own width
    path = 1.5 * body.LEG * 1.75 * maps.DURATION
    end = np.sqrt(distance**2 + path**2 - 2 * distance * path * np.cos(np.radians(heading)))  # over the ground
    assert abs(found.mean() - (distance - end) / maps.DURATION) < 0.05


def test_a_point_at_constant_speed_is_one_row():
    ranges = (9.0 - 1.5 * T)[None]
    image = maps.spectrogram(maps.received(np.ones_like(ranges), ranges, rng=np.random.default_rng(0), snr=CLEAN))
    rows = image.argmax(axis=0)
    assert (rows == np.abs(VELOCITIES - 1.5).argmin()).all()
    assert (image[: maps.SIZE // 2] < 128).all()  # nothing on the other side


def test_limbs_are_half_a_cycle_apart():
    speed = 1.4
    cycle = 1.346 / np.sqrt(speed)
    t = np.linspace(0, cycle, 401)
    pose = body.walk(t, 1.8, relative_speed=speed)
    for name in ("hip", "knee", "ankle", "shoulder", "elbow"):
        left, right = getattr(pose, name)
        np.testing.assert_allclose(left[:201], right[200:], atol=1e-6)
        np.testing.assert_allclose(left[200:], right[:201], atol=1e-6)
    length = 1.346 * np.sqrt(speed) * body.LEG * 1.8  # of a cycle
    assert pose.forward[-1] - pose.forward[0] == pytest.approx(length)
    left_hip, left_arm = pose.hip[0], pose.shoulder[0]
    assert left_hip[0] > 20 and left_arm[0] < -10 and left_hip[200] < -10 and left_arm[200] > 5  # arms against legs


def test_curves_pass_through_their_points_and_stay_between_them():
    points = ((-0.1, 25), (0.5, -15), (0.9, 25))  # the first and last are one
    phase = np.linspace(-1, 2, 3001)
    values = body.curve(points, phase)
    assert values.min() == pytest.approx(-15) and values.max() == pytest.approx(25)
    np.testing.assert_allclose(body.curve(points, np.array([0.5, 0.9, -0.1, 1.5])), [-15, 25, 25, -15], atol=1e-9)
    np.testing.assert_allclose(values[:1001], values[1000:2001], atol=1e-6)
    with pytest.raises(errors.DataError, match="relative speed of 4"):
        body.walk(phase, 1.7, relative_speed=4)


@pytest.mark.parametrize("activity", activities.ACTIVITIES)
def test_bodies_hold_together_and_stand_on_the_ground(activity):
    t = T[::40]
    found = activities.draw(activity, np.random.default_rng(3), setting=activities.SETTINGS["easy"], t=t)
    centres, axes = body.segments(found.pose, found.height, instants=len(t))
    assert centres.shape == axes.shape == (16, 3, len(t)) and np.isfinite(centres).all()
    lengths = np.sqrt((axes**2).sum(1))
    np.testing.assert_allclose(lengths, np.broadcast_to(lengths[:, :1], lengths.shape), rtol=1e-9)
    foot = [body.SEGMENTS.index(f"{side}_foot") for side in ("left", "right")]
    ends = np.concatenate([centres[foot, 2] - axes[foot, 2] / 2, centres[foot, 2] + axes[foot, 2] / 2])
    np.testing.assert_allclose(ends.min(axis=0), np.broadcast_to(found.pose.lift, len(t)), atol=1e-9)
    highest = (centres + axes / 2)[body.SEGMENTS.index("head"), 2]
    assert highest.max() < found.height + 0.3
    if activity == "fall":
        assert highest[0] > 0.8 * found.height and highest[-1] < 0.4 * found.height
    elif activity == "sit_down":
        assert highest[-1] < 0.8 * highest[0]


def test_the_ellipsoid_seen_from_its_side_and_from_its_end():
    a, c = 0.1, 0.3
    assert maps.cross_section(a, c, cosine_squared=0.0) == pytest.approx(np.pi * c**2)
    assert maps.cross_section(a, c, cosine_squared=1.0) == pytest.approx(np.pi * a**4 / c**2)
    assert maps.cross_section(a, a, cosine_squared=0.37) == pytest.approx(np.pi * a**2)  # a sphere, from anywhere


@pytest.mark.parametrize("snr", [-10, 10])
def test_noise_is_as_strong_as_asked_for(snr):
    ranges = (9.0 - 1.5 * T)[None]
    with_noise, without = (
        maps.received(np.ones_like(ranges), ranges, rng=np.random.default_rng(1), snr=value) for value in (snr, 200)
    )
    noise, moving = with_noise - without, without - without.mean()
    measured = 10 * np.log10(np.mean(np.abs(moving) ** 2) / np.mean(np.abs(noise) ** 2))
    assert measured == pytest.approx(snr, abs=0.3)
    assert abs(without.mean()) == pytest.approx(maps.CLUTTER * np.sqrt(np.mean(np.abs(moving) ** 2)), rel=0.02)


def test_movements_are_in_their_bands():
    """Where a map is brighter than -30 dB: a walker's side of the map, and both sides of one who jumps."""
    rows = VELOCITIES
    walker = scene(body.walk(T, 1.75, relative_speed=1.5))

    def share(image, chosen):
        return (image[chosen] > -30).sum() / (image > -30).sum()

    towards = picture(walker)
    away = picture(dataclasses.replace(walker, heading=180.0, distance=3.0))
    assert share(towards, rows > -0.1) > 0.9 and share(away, rows < 0.1) > 0.9
    assert share(towards, np.abs(rows) > 3.9) == 0
    jumper = scene(activities.MOTIONS["jump"](T, np.random.default_rng(0)), distance=3.0)
    jumping = picture(jumper)
    assert (jumping[rows > 0.5] > -30).sum() > 50 and (jumping[rows < -0.5] > -30).sum() > 50


def test_maps_follow_their_seed_and_are_kept(cache):
    first = sources.load("generated:radar_har,size=8")
    assert first.classes == activities.ACTIVITIES and len(first) == 8
    record = first[1]
    assert record["image"].shape == (128, 128, 1) and record["image"].dtype == np.uint8
    assert [r["label"] for r in first] == list(activities.ACTIVITIES)
    (kept,) = cache.glob("radar_har-*.npy")
    written = kept.stat().st_mtime_ns
    again = sources.load("generated:radar_har,size=8,difficulty=hard")
    assert all((a["image"] == b["image"]).all() for a, b in zip(first, again)) and kept.stat().st_mtime_ns == written
    assert again.fingerprint == first.fingerprint
    whole = kept.read_bytes()
    kept.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    repaired = sources.load("generated:radar_har,size=8")
    assert all((a["image"] == b["image"]).all() for a, b in zip(first, repaired))
    assert (maps.make("hard", "train", index=7) == first[7]["image"][..., 0]).all()  # whatever the size of the set
    assert not (maps.make("hard", "train", index=7, seed=1) == first[7]["image"][..., 0]).all()
    for split in ("validation", "test"):
        assert not (maps.make("hard", split, index=7) == first[7]["image"][..., 0]).all()
    assert not (maps.make("easy", "train", index=7) == first[7]["image"][..., 0]).all()


@pytest.mark.parametrize(
    "options, words",
    [("difficulty=heard", "did you mean 'hard'"), ("tasks=add_1", "option 'tasks=add_1'"), ("size=0", "whole number")],
)
def test_wrong_options(options, words):
    with pytest.raises(errors.DataError, match=words):
        sources.load(f"generated:radar_har,{options}")
