"""The recording: events to windows, folds that share no event. A small one made up here; the real one where it lies."""

import os

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources
from lwt.data.radar import parrad
from studies.radar import linear_classifier


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """11 events, 60 frames apart; in event i bin 40 + i of the first radar is bright in the frames from 10 to 20."""
    frames = np.full((700, 128), 5000.0, np.float32)
    frames[:, 64] += 3000
    lines = ["event,time_s,start_frame,end_frame,activity,group"]
    for i in range(11):
        frames[60 * i + 10 : 60 * i + 20, 40 + i] += 1500
        lines.append(f"{i},{i},{60 * i},{60 * i + 60},walk {i},{'walk' if i % 2 else 'fall'}")
    where = tmp_path / "recording"
    where.mkdir()
    np.savez(where / "mdoppler.npz", radar14=frames, radar68=frames[:, ::-1])
    (where / "events.csv").write_text("\n".join(lines) + "\n")
    (where / "labels_group.txt").write_text("walk\nfall\n")
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    return where


def test_windows_are_where_their_events_are(folder):
    source = sources.load("folder:recording@all")
    assert len(source) == 11 and source.classes == ("walk", "fall")
    record = source[3]
    image = record["image"]
    assert image.shape == (64, 64, 2) and image.dtype == np.float32 and (record["label"], record["activity"]) == (
        "walk", "walk 3",
    )  # fmt: skip
    bright = np.argwhere(image[..., 0] > 0.9)
    assert {*bright[:, 0]} == {43 - 32, 44 - 32}  # bin 43, and bin 44 of the next event
    assert {*bright[bright[:, 0] == 11, 1]} == {*range(2, 12)}  # frames 10 to 20, from frame 8 on
    assert image[64 - 32].max() == pytest.approx(parrad.STILL)  # what is always bright does not move
    last = source[10]["image"]  # frames 608 to 672 of 700
    assert np.ptp(last[:, 20:]) == 0
    assert np.ptp(parrad.window(last.transpose(1, 0, 2), 40)[:, 16:]) == 0  # behind the end nothing moves


def test_folds_are_disjoint_and_complete(folder):
    def names(split):
        return [record["activity"] for record in sources.load(f"folder:recording@{split}")]

    folds = [names(f"fold{k}") for k in range(parrad.FOLDS)]
    assert sorted(sum(folds, [])) == sorted(names("all")) and [len(fold) for fold in folds] == [3, 2, 2, 2, 2]
    for k, fold in enumerate(folds):
        assert not {*fold} & {*names(f"rest{k}")} and len(names(f"rest{k}")) == 11 - len(fold)
    assert sources.splits("folder:recording") == ["all", *(f"{p}{k}" for p in ("fold", "rest") for k in range(5))]


def test_what_is_wrong_is_named(folder):
    with pytest.raises(errors.DataError, match="no split 'fold7'; did you mean 'fold"):
        sources.load("folder:recording@fold7")
    with pytest.raises(errors.DataError, match="no field 'text'"):
        sources.load("folder:recording@all", fields=("text",))
    events = (folder / "events.csv").read_text()
    for wrong in ("11,11,700,760,walk,walk\n", "11,11,-1,60,walk,walk\n", "11,11,3,60,walk,\n"):
        (folder / "events.csv").write_text(events + wrong)
        with pytest.raises(errors.DataError, match="events.csv, event 12: start_frame .* must be below 700"):
            sources.load("folder:recording@all")
    (folder / "events.csv").write_text(events)
    np.savez(folder / "mdoppler.npz", radar14=np.zeros((5, 128)))
    with pytest.raises(errors.DataError, match="radar14 and radar68"):
        sources.load("folder:recording@all")
    (folder / "events.csv").write_text("event,activity\n0,walk\n")
    with pytest.raises(errors.DataError, match="events.csv needs the columns start_frame"):
        sources.load("folder:recording@all")


@pytest.mark.skipif(not os.environ.get("LWT_DATA"), reason="LWT_DATA, the folder of real data, is not set")
def test_the_real_recording():
    source = sources.load("folder:radar_parrad@all")
    assert len(source) == 99 and len(source.classes) == 6
    images = np.stack([record["image"] for record in source])
    assert 0 <= images.min() and images.max() == 1 and 0.1 < images.mean() < 0.2 and 0.1 < images.std() < 0.2
    figures = linear_classifier.of_images("folder:radar_parrad")
    assert (
        figures["test"] == 99 and figures["train"] in (79, 80) and figures["accuracy"] == pytest.approx(0.788, abs=0.03)
    )
