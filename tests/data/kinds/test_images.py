"""Images: from folders to the batches of a run, exact resume, and predicting without data."""

import json
import os

import numpy as np
import PIL.Image
import pytest

from lwt import errors
from lwt.data import sources
from lwt.data.batches import sharding


def test_a_folder_without_splits(make_images, tmp_path, pictures):
    found = pictures.classes(tmp_path / "a", 60)
    data = make_images()
    assert data.splits.rule == "iii" and sources.splits("folder:a") == ["train"]
    parts = [data.splits.train, data.splits.validation, data.splits.tests["test"]]
    assert [len(part) for part in parts] == [49, 5, 6]
    names = [record["file"] for part in parts for record in part]
    assert len({*names}) == 60 and data.splits.counts["validation in train"] == 0
    everything = {image.tobytes(): path for path, image in found.items()}
    for record in parts[1]:
        assert record["file"].endswith(everything[record["image"].tobytes()])
    again = make_images()
    assert [r["file"] for r in again.splits.validation] == [r["file"] for r in parts[1]]


def test_training_goes_through_all_and_resumes_exactly(make_images, tmp_path, pictures):
    found = pictures.classes(tmp_path / "a/train", 40)
    pictures.classes(tmp_path / "a/test", 4, seed=1)
    label = {image.tobytes(): pictures.NAMES.index(path[:3]) for path, image in found.items()}
    data = make_images()
    batches = data.training()
    stream = [next(batches) for _ in range(12)]
    for batch in stream:
        assert {name: (a.shape, a.dtype) for name, a in batch.items()} == {
            name: (a.shape, a.dtype) for name, a in data.example().items()
        }
        assert [label[image.tobytes()] for image in batch["image"]] == batch["label"].tolist()
        assert (batch["weight"] == 1).all()
    order = [image.tobytes() for batch in stream for image in batch["image"]]
    assert len({*order[:36]}) == len({*order[36:]}) == 36 and order[:36] != order[36:]
    assert batches.measure()["batches"] == 6 and data.positions == 6
    again, shares = make_images().training(), [make_images().training(share=sharding.Share(i, 2)) for i in range(2)]
    state = json.loads(json.dumps(batches.state()))
    following = next(batches)
    again.restore(state)
    for share in shares:
        share.restore(state)
    np.testing.assert_array_equal(next(again)["image"], following["image"])
    np.testing.assert_array_equal(np.concatenate([next(share)["image"] for share in shares]), following["image"])
    other = make_images(workdir="other", seed=1).training()
    assert (next(other)["image"] != stream[0]["image"]).any()
    with pytest.raises(errors.DataError, match="saved with other data"):
        other.restore(state)


def test_to_predict_no_data_is_needed(make_images, tmp_path, pictures):
    pictures.classes(tmp_path / "a/train", 20)
    pictures.classes(tmp_path / "a/test", 4, seed=1)
    next(make_images().training())
    image = pictures.pixels(1, seed=5)[0]
    (tmp_path / "x.png").write_bytes(pictures.encoded(image))
    np.save(tmp_path / "y.npy", image)
    os.rename(tmp_path / "a", tmp_path / "gone")
    data = make_images()
    found = data.from_texts([f"{tmp_path}/x.png", f"{tmp_path}/y.npy"])
    (batch,) = data.batches(found)
    assert "label" not in batch and batch["weight"].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    np.testing.assert_array_equal(batch["image"][:2], [image, image])
    assert data.identity == make_images().identity and data.tokenizer is None
    (tmp_path / "text.png").write_text("hello")
    np.save(tmp_path / "small.npy", image[:5])
    for name, message in (
        ("text.png", "text.png cannot be decoded as an image: it has no format that Pillow reads"),
        ("none.png", "none.png cannot be read .*path of an image file"),
        ("small.npy", r"small.npy is \[5, 8, 3, 'uint8'\]; the training images are \[8, 8, 3, 'uint8'\]"),
    ):
        with pytest.raises(errors.DataError, match=message):
            data.from_texts([f"{tmp_path}/{name}"])


def test_sixteen_bits_to_predict_keep_their_levels(make_images, tmp_path, pictures):
    pictures.classes(tmp_path / "a", 20, channels=1)
    data = make_images()
    next(data.training())
    levels = np.arange(0, 64 * 1000, 1000, dtype=np.uint16).reshape(8, 8)
    PIL.Image.fromarray(levels).save(tmp_path / "deep.png")
    (batch,) = data.batches(data.from_texts([str(tmp_path / "deep.png")]))
    np.testing.assert_array_equal(batch["image"][0, ..., 0], np.round(levels / 257))


def test_measured_maps_stay_numbers(make_images, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "a").mkdir()
    maps = rng.normal(size=(40, 6, 5)).astype("f8")
    np.savez(tmp_path / "a/train.npz", image=maps, label=np.arange(40) % 4)
    data = make_images()
    batch = next(data.training())
    assert batch["image"].dtype == np.float32 and batch["image"].shape == (6, 6, 5, 1)
    assert data.labels.names == ("0", "1", "2", "3") and data.example()["image"].dtype == np.float32
    known = {m.astype("f4").tobytes() for m in maps}
    assert all(image.tobytes() in known for image in batch["image"])


def test_another_set_of_another_shape(make_images, tmp_path, pictures):
    pictures.classes(tmp_path / "a/train", 20)
    pictures.classes(tmp_path / "a/test", 4, seed=1)
    pictures.classes(tmp_path / "b/test", 4, size=9)
    with pytest.raises(errors.DataError, match=r"folder:b@test has images of \[9, 9, 3, 'uint8'\], the training"):
        make_images().evaluation("folder:b@test")


def test_cifar10_of_tfds_under_its_mock(make_images, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=30):
        data = make_images("tfds:cifar10", workdir="c", test="tfds:cifar10@test")
        batch = next(data.training())
        assert data.shape == (32, 32, 3) and data.outputs == 10
        assert [len(data.splits.train), len(data.splits.validation), len(data.splits.tests["test"])] == [27, 3, 30]
        raw = {record["image"].tobytes(): record["label"] for record in sources.load("tfds:cifar10")}
        assert [raw[image.tobytes()] for image in batch["image"]] == batch["label"].tolist()
