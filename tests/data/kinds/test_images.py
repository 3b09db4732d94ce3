"""Images: what files decode to, folders, archives and arrays, the cache, malformed ones, and the batches."""

import io
import json
import os
import tarfile

import ml_collections
import numpy as np
import PIL.Image
import pytest

from lwt import errors
from lwt.data import sources
from lwt.data.images import cache
from lwt.data.images import files as image_files
from lwt.data.kinds import images

tfds = pytest.importorskip("tensorflow_datasets")
NAMES = ("ant", "bee")


def pixels(count, *, size=8, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, channels), np.uint8)


def encoded(image, kind="png"):
    file = io.BytesIO()
    PIL.Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file, kind)
    return file.getvalue()


def classes(folder, count, *, seed=0, **other):
    """Files by class; returns {path inside of the folder: pixels}."""
    found = {}
    for i, image in enumerate(pixels(count, seed=seed, **other)):
        path = folder / NAMES[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(image))
        found[f"{NAMES[i % 2]}/{path.name}"] = image
    return found


def archive(path, members):
    with tarfile.open(path, "w:xz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def make(tmp_path):
    def data(name="folder:a", workdir="run", seed=0, **other):
        section = {
            **{"train": name, "validation": "", "test": "", "label": "label", "leak_free": False},
            **{"max_train_records": 0, "max_malformed": 0.1, "image_size": 0, "channels": 0, "randaugment": ()},
            **{"rows": 6, "eval_batch": 8},
        }
        return images.Images(ml_collections.ConfigDict(section | other), tmp_path / workdir, seed=seed)

    return data


def test_an_image_becomes_what_a_model_takes():
    image = pixels(1)[0]
    np.testing.assert_array_equal(image_files.decode(encoded(image), "x"), image)
    grey = image[..., :1]
    np.testing.assert_array_equal(image_files.fit(image_files.decode(encoded(grey), "x")), grey)
    np.testing.assert_array_equal(image_files.fit(grey, channels=3), np.repeat(grey, 3, axis=2))
    brightness = image_files.fit(image, channels=1)[..., 0]
    np.testing.assert_allclose(brightness, image @ [0.299, 0.587, 0.114], atol=1)
    wide = np.zeros((8, 20, 3), np.uint8)
    wide[:, 4:16] = 200  # the middle square, and what its border is interpolated with
    assert (image_files.fit(wide, size=4) == 200).all() and image_files.fit(wide, size=4).shape == (4, 4, 3)
    measured = np.linspace(-5, 9000, 12).reshape(2, 3, 2)
    assert image_files.fit(measured).dtype == np.float32 and image_files.fit(measured[..., 0]).shape == (2, 3, 1)


@pytest.mark.parametrize(
    "image, settings, message",
    [
        (np.zeros((2, 2, 2, 2), np.uint8), {}, r"shape \(2, 2, 2, 2\) should be"),
        (np.zeros((2, 2, 3), np.int64), {}, "type int64 should be uint8, or floats"),
        (np.full((2, 2, 1), np.nan), {}, "not finite"),
        (np.zeros((2, 2, 1)), {"size": 4}, "are not resized"),
        (np.zeros((2, 2, 5), np.uint8), {"channels": 3}, "5 channels are neither 1 nor 3"),
    ],
)
def test_what_is_no_image(image, settings, message):
    with pytest.raises(ValueError, match=message):
        image_files.fit(image, **settings)


def test_folders_archives_and_arrays_hold_the_same(make, tmp_path):
    train, test = classes(tmp_path / "a/train", 40), classes(tmp_path / "a/test", 10, seed=1)
    (tmp_path / "a/labels.txt").write_text("bee\nant\n")
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "labels.txt").write_text("bee\nant\n")
    for split, found in (("train", train), ("test", test)):
        named = {f"{path[4:7]}_{path[:3]}.png": encoded(image) for path, image in found.items()}
        archive(tmp_path / f"b/{split}.tar.xz", {**named, "README": b"no image"})
        labels = np.array([NAMES[::-1].index(path[:3]) for path in found])
        np.savez(tmp_path / f"c/{split}.npz", image=np.stack(list(found.values())), label=labels)
    seen = []
    for name in "abc":
        data = make(f"folder:{name}", workdir=name)
        found = data.evaluation("test")
        (batch, filled) = data.batches(found)
        assert data.labels.names == ("bee", "ant") and data.shape == (8, 8, 3) and data.splits.rule == "ii"
        assert filled["weight"].tolist() == [1, 1] + [0] * 6 and not filled["image"][2:].any()
        assert filled["example"].tolist()[2:] == [-1] * 6 and len(data.splits.validation) == 4
        rows = [(image.tobytes(), int(label)) for b in (batch, filled) for image, label in zip(b["image"], b["label"])]
        seen.append(sorted(rows[:10]))
        wanted = {image.tobytes(): path[:3] for path, image in test.items()}
        assert [wanted[image] for image, _ in rows[:10]] == data.answers(found.references)
        assert data.outputs == 2 and data.answers(np.array([[0, 1], [1, 0]])) == ["ant", "bee"]
    assert seen[0] == seen[1] == seen[2]


def test_a_folder_without_splits(make, tmp_path):
    found = classes(tmp_path / "a", 60)
    data = make()
    assert data.splits.rule == "iii" and sources.splits("folder:a") == ["train"]
    parts = [data.splits.train, data.splits.validation, data.splits.tests["test"]]
    assert [len(part) for part in parts] == [49, 5, 6]
    names = [record["file"] for part in parts for record in part]
    assert len({*names}) == 60 and data.splits.counts["validation in train"] == 0
    everything = {image.tobytes(): path for path, image in found.items()}
    for record in parts[1]:
        assert record["file"].endswith(everything[record["image"].tobytes()])
    again = make()
    assert [r["file"] for r in again.splits.validation] == [r["file"] for r in parts[1]]


def test_training_goes_through_all_and_resumes_exactly(make, tmp_path):
    found = classes(tmp_path / "a/train", 40)
    classes(tmp_path / "a/test", 4, seed=1)
    label = {image.tobytes(): NAMES.index(path[:3]) for path, image in found.items()}
    data = make()
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
    again, shares = make().training(), [make().training(process=i, processes=2) for i in range(2)]
    state = json.loads(json.dumps(batches.state()))
    following = next(batches)
    again.restore(state)
    for share in shares:
        share.restore(state)
    np.testing.assert_array_equal(next(again)["image"], following["image"])
    np.testing.assert_array_equal(np.concatenate([next(share)["image"] for share in shares]), following["image"])
    other = make(workdir="other", seed=1).training()
    assert (next(other)["image"] != stream[0]["image"]).any()
    with pytest.raises(errors.DataError, match="saved with other data"):
        other.restore(state)


def test_images_are_decoded_once(make, tmp_path, monkeypatch):
    classes(tmp_path / "a/train", 20)
    classes(tmp_path / "a/test", 4, seed=1)
    first = next(make().training())
    with monkeypatch.context() as patched:
        patched.setattr(image_files, "decode", None)
        again = make(workdir="other")
        np.testing.assert_array_equal(next(again.training())["image"], first["image"])
    files = sorted((tmp_path / "cache/images").iterdir())
    assert {path.suffix for path in files} == {".npy", ".json"} and len(files) == 4
    for path in files:
        path.write_bytes(b"spoilt")
    np.testing.assert_array_equal(next(make(workdir="third").training())["image"], first["image"])
    assert make(workdir="small", image_size=4).shape == (4, 4, 3)


def test_malformed_images_are_named_and_counted(make, tmp_path, caplog):
    classes(tmp_path / "a/train", 40)
    classes(tmp_path / "a/test", 4, seed=1)
    broken, other = tmp_path / "a/train/ant/000.png", tmp_path / "a/train/bee/001.png"
    broken.write_bytes(encoded(pixels(1)[0])[:60])
    other.write_bytes(encoded(pixels(1, size=5)[0]))
    data = make()
    assert len(data.splits.train) + len(data.splits.validation) == 38
    assert f"{broken} is no image that can be decoded" in caplog.text
    assert f"{other}: 8 × 8 × 3 uint8 is expected, as the first image is, and not 5 × 5 × 3 uint8" in caplog.text
    with pytest.raises(errors.DataError, match=rf"2 of 40 images are malformed \(5.0%, allowed 1.0%\): .*{broken}"):
        _ = make(workdir="strict", max_malformed=0.01).splits
    assert len(make(workdir="resized", image_size=8).splits.train.malformed) == 1


def test_broken_sources_say_so(make, tmp_path):
    for name in "abcde":
        (tmp_path / name).mkdir()
    np.savez(tmp_path / "a/train.npz", images=pixels(4))
    np.savez(tmp_path / "b/train.npz", image=pixels(4), label=np.arange(3))
    archive(tmp_path / "c/train.tar.xz", {f"{i}_ant.png": encoded(image) for i, image in enumerate(pixels(40))})
    spoilt = (tmp_path / "c/train.tar.xz").read_bytes()
    (tmp_path / "c/train.tar.xz").write_bytes(spoilt[: len(spoilt) // 2])
    archive(tmp_path / "d/train.tar", {"ant.png": encoded(pixels(1)[0])})
    np.savez(tmp_path / "e/train.npz", image=pixels(20), label=np.linspace(0, 1, 20))
    for name, message in (
        ("a", "should hold arrays image and label; there is: images"),
        ("b", r"image \(4, 8, 8, 3\) and label \(3,\) should be"),
        ("c", "train.tar.xz is damaged after"),
        ("d", "1 of 1 images are malformed .*train.tar:ant.png does not tell its class"),
    ):
        with pytest.raises(errors.DataError, match=message):
            _ = make(f"folder:{name}", workdir=name).splits
    with pytest.raises(errors.DataError, match="folder:e: labels of images should be classes, not numbers"):
        make("folder:e", workdir="e").training()


def test_labels_and_the_cache_are_checked(tmp_path, monkeypatch):
    records = [
        {"image": image, "label": [i] if i == 3 else np.int64(i % 2), "id": i} for i, image in enumerate(pixels(20))
    ]
    source = sources.Source("made", records, ("image", "label", "id"), "f")
    found = cache.decoded(source, max_malformed=0.05)
    assert found.malformed == ("made, record 3: its label should be text or a number, not [3]",)
    assert [record["id"] for record in found] == [*range(3), *range(4, 20)] and set(found.fields) == {*source.fields}
    np.testing.assert_array_equal(found[5]["image"], records[6]["image"])
    (tmp_path / "file").touch()
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "file"))
    with pytest.raises(errors.DataError, match="file/images cannot be written .*; set LWT_CACHE"):
        cache.decoded(source)


def test_to_predict_no_data_is_needed(make, tmp_path):
    classes(tmp_path / "a/train", 20)
    classes(tmp_path / "a/test", 4, seed=1)
    next(make().training())
    image = pixels(1, seed=5)[0]
    (tmp_path / "x.png").write_bytes(encoded(image))
    np.save(tmp_path / "y.npy", image)
    os.rename(tmp_path / "a", tmp_path / "gone")
    data = make()
    found = data.from_texts([f"{tmp_path}/x.png", f"{tmp_path}/y.npy"])
    (batch,) = data.batches(found)
    assert "label" not in batch and batch["weight"].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    np.testing.assert_array_equal(batch["image"][:2], [image, image])
    assert data.identity == make().identity and data.tokenizer is None
    (tmp_path / "text.png").write_text("hello")
    np.save(tmp_path / "small.npy", image[:5])
    for name, message in (
        ("text.png", "text.png is no image that can be decoded"),
        ("none.png", "none.png cannot be read .*path of an image file"),
        ("small.npy", r"small.npy is \[5, 8, 3, 'uint8'\], and not \[8, 8, 3, 'uint8'\]"),
    ):
        with pytest.raises(errors.DataError, match=message):
            data.from_texts([f"{tmp_path}/{name}"])


def test_measured_maps_stay_numbers(make, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "a").mkdir()
    maps = rng.normal(size=(40, 6, 5)).astype("f8")
    np.savez(tmp_path / "a/train.npz", image=maps, label=np.arange(40) % 4)
    data = make()
    batch = next(data.training())
    assert batch["image"].dtype == np.float32 and batch["image"].shape == (6, 6, 5, 1)
    assert data.labels.names == ("0", "1", "2", "3") and data.example()["image"].dtype == np.float32
    known = {m.astype("f4").tobytes() for m in maps}
    assert all(image.tobytes() in known for image in batch["image"])


def test_another_set_of_another_shape(make, tmp_path):
    classes(tmp_path / "a/train", 20)
    classes(tmp_path / "a/test", 4, seed=1)
    classes(tmp_path / "b/test", 4, size=9)
    with pytest.raises(errors.DataError, match=r"folder:b@test has images of \[9, 9, 3, 'uint8'\], and not"):
        make().evaluation("folder:b@test")


def test_cifar10_of_tfds_under_its_mock(make, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    with tfds.testing.mock_data(num_examples=30):
        data = make("tfds:cifar10", workdir="c", test="tfds:cifar10@test")
        batch = next(data.training())
        assert data.shape == (32, 32, 3) and data.outputs == 10
        assert [len(data.splits.train), len(data.splits.validation), len(data.splits.tests["test"])] == [27, 3, 30]
        raw = {record["image"].tobytes(): record["label"] for record in sources.load("tfds:cifar10")}
        assert [raw[image.tobytes()] for image in batch["image"]] == batch["label"].tolist()


@pytest.mark.skipif(not os.path.isdir(os.path.join(os.environ.get("LWT_DATA", ""), "cifar10")), reason="LWT_DATA unset")
def test_cifar10_s_first_images(monkeypatch):
    monkeypatch.undo()
    source = sources.load("folder:cifar10", split="test")
    labels = np.load(os.path.join(os.environ["LWT_DATA"], "cifar10/test_labels.npy"))
    assert len(source) == 10_000 and len(source.classes) == 10
    for i in (0, 17, 9_999):
        assert source.classes.index(source[i]["label"]) == labels[i] and source[i]["image"].shape == (32, 32, 3)
    assert cache.IMAGE in source.fields
