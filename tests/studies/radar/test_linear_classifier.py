"""The linear classifier that networks on images are measured against."""

import numpy as np
import pytest

from lwt.data import sources
from studies.radar import linear_classifier


def test_easy_radar_maps_are_classified(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    found = linear_classifier.of_images("generated:radar_har,difficulty=easy,size=240")
    assert (found["classes"], found["train"], found["test"], found["majority"]) == (8, 240, 240, 0.125)
    assert found["accuracy"] >= 0.95


def test_a_recording_is_cross_validated(recording):
    found = linear_classifier.of_images("folder:recording")
    assert found["test"] == 20 and found["train"] == 16 and found["accuracy"] == 1.0 and found["majority"] == 0.5


@pytest.fixture
def recording(tmp_path, monkeypatch):
    """20 events, 60 frames apart, of two groups, each bright in bins of its own."""
    frames = np.full((1260, 128), 5000.0, np.float32)
    lines = ["event,time_s,start_frame,end_frame,activity,group"]
    for i in range(20):
        frames[60 * i + 10 : 60 * i + 20, 40 + 40 * (i % 2)] += 1500
        lines.append(f"{i},{i},{60 * i},{60 * i + 60},walk {i},{'walk' if i % 2 else 'fall'}")
    folder = tmp_path / "recording"
    folder.mkdir()
    np.savez(folder / "mdoppler.npz", radar14=frames, radar68=frames)
    (folder / "events.csv").write_text("\n".join(lines) + "\n")
    (folder / "labels_group.txt").write_text("walk\nfall\n")
    monkeypatch.setenv("LWT_DATA", str(tmp_path))


def test_fields_are_means_between_0_and_1(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    source = sources.load("generated:radar_har,size=8@train")
    features, labels = linear_classifier.fields(source, source.classes)
    image = source[3]["image"]
    h, w = (side // 32 for side in image.shape[:2])
    assert features.shape == (8, 32 * 32 * image.shape[2]) and [source.classes[i] for i in labels] == [
        record["label"] for record in source
    ]
    np.testing.assert_allclose(features[3][1], image[:h, w : 2 * w].mean() / 255)
