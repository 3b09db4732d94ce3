"""The linear classifier that small networks are measured against."""

import json

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources
from lwt.inspect import linear_classifier


def write(folder, record):
    folder.mkdir()
    rows = [record(*np.random.default_rng(i).permutation(["one", "two", "six"])) for i in range(120)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"data=folder:{folder}"


def test_pairs_of_words_are_features(tmp_path):
    task = write(tmp_path / "orders", lambda a, b, c: {"text": f"{a} {b}  {c.upper()}", "label": f"{a}-{b}"})
    found = linear_classifier.of_texts(task)
    assert found["test_accuracy"] == found["validation"] == 1.0 and found["test_mcc"] == 1.0
    assert (found["train"], found["test"], found["features"]) == (98, 12, 9)  # three words, six pairs


def test_both_texts_of_a_pair_are_features(tmp_path):
    task = write(tmp_path / "pairs", lambda a, b, c: {"text": c, "text_pair": a, "label": f"{a}{c}"})
    found = linear_classifier.of_texts(task)
    assert found["test_accuracy"] == 1.0 and found["features"] == 6


def test_records_of_the_test_set_can_be_left_out_of_training(tmp_path):
    task = write(tmp_path / "orders", lambda a, b, c: {"text": f"{a} {b}", "label": f"{a}-{b}"})  # six texts
    assert linear_classifier.of_texts(task)["train"] == 98
    with pytest.raises(errors.DataError, match="data.leak_free leaves no record for"):
        linear_classifier.of_texts(task, more="leak_free=true")


def test_numbers_as_labels_are_refused(tmp_path):
    task = write(tmp_path / "numbers", lambda a, b, c: {"text": a, "label": len(a) / 7})
    with pytest.raises(errors.ConfigError, match="has numbers as labels"):
        linear_classifier.of_texts(task)


def test_an_unknown_task_is_named():
    with pytest.raises(errors.ConfigError, match="snisp"):
        linear_classifier.of_texts("snisp")


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
