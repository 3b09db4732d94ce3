"""Folders, archives and arrays of images hold the same, and damaged ones are named."""

import os

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources


def test_folders_archives_and_arrays_hold_the_same(make_images, tmp_path, pictures):
    train, test = pictures.classes(tmp_path / "a/train", 40), pictures.classes(tmp_path / "a/test", 10, seed=1)
    (tmp_path / "a/labels.txt").write_text("bee\nant\n")
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "labels.txt").write_text("bee\nant\n")
    for split, found in (("train", train), ("test", test)):
        named = {f"{path[4:7]}_{path[:3]}.png": pictures.encoded(image) for path, image in found.items()}
        pictures.archive(tmp_path / f"b/{split}.tar.xz", {**named, "README": b"no image"})
        labels = np.array([pictures.NAMES[::-1].index(path[:3]) for path in found])
        np.savez(tmp_path / f"c/{split}.npz", image=np.stack(list(found.values())), label=labels)
    seen = []
    for name in "abc":
        data = make_images(f"folder:{name}", workdir=name)
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


def test_damaged_sources_are_named(make_images, tmp_path, pictures):
    for name in "abcde":
        (tmp_path / name).mkdir()
    np.savez(tmp_path / "a/train.npz", images=pictures.pixels(4))
    np.savez(tmp_path / "b/train.npz", image=pictures.pixels(4), label=np.arange(3))
    pictures.archive(
        tmp_path / "c/train.tar.xz",
        {f"{i}_ant.png": pictures.encoded(image) for i, image in enumerate(pictures.pixels(40))},
    )
    spoilt = (tmp_path / "c/train.tar.xz").read_bytes()
    (tmp_path / "c/train.tar.xz").write_bytes(spoilt[: len(spoilt) // 2])
    pictures.archive(tmp_path / "d/train.tar", {"ant.png": pictures.encoded(pictures.pixels(1)[0])})
    np.savez(tmp_path / "e/train.npz", image=pictures.pixels(20), label=np.linspace(0, 1, 20))
    for name, message in (
        ("a", "must hold the arrays image and label; it holds images"),
        ("b", r"image \(4, 8, 8, 3\) and label \(3,\) must be"),
        ("c", "train.tar.xz is damaged after"),
        ("d", "1 of 1 images are malformed .*train.tar:ant.png does not name its class"),
    ):
        with pytest.raises(errors.DataError, match=message):
            _ = make_images(f"folder:{name}", workdir=name).splits
    with pytest.raises(errors.DataError, match="folder:e: labels of images must be classes, not numbers"):
        make_images("folder:e", workdir="e").training()


def test_classes_of_other_files_and_deeper_folders(make_images, tmp_path, pictures, caplog):
    pictures.classes(tmp_path / "a/train", 40)
    found = tmp_path / "a/train/ant"
    (found / "deep/er").mkdir(parents=True)
    (found / "000.png").rename(found / "deep/er/000.PNG")
    (found / "notes.txt").write_text("x")
    (tmp_path / "a/train/stray.png").write_bytes(pictures.encoded(pictures.pixels(1)[0]))
    (tmp_path / "a/README.md").write_text("x")
    data = make_images()
    assert sum(map(len, (data.splits.train, data.splits.validation, data.splits.tests["test"]))) == 40
    assert data.labels.names == ("ant", "bee") and "train: not read: 1 .txt, 1 .png" in caplog.text
    (tmp_path / "a/train/bee/broken.png").symlink_to("nowhere")
    with pytest.raises(errors.DataError, match="bee/broken.png cannot be read: No such file"):
        sources.load("folder:a")
    for extra, message in (
        ("heic", "class 'cow' has no image that can be read, only 1 .heic"),
        ("", "an empty folder"),
    ):
        other = tmp_path / f"b{extra}"
        pictures.classes(other / "train", 4)
        (other / "train/cow").mkdir()
        if extra:
            (other / "train/cow/1.heic").write_text("x")
        with pytest.raises(errors.DataError, match=message):
            sources.load(f"folder:{other.name}")


@pytest.mark.skipif(not os.path.isdir(os.path.join(os.environ.get("LWT_DATA", ""), "cifar10")), reason="LWT_DATA unset")
def test_the_first_images_of_cifar10():
    source = sources.load("folder:cifar10", split="test")
    labels = np.load(os.path.join(os.environ["LWT_DATA"], "cifar10/test_labels.npy"))
    assert len(source) == 10_000 and len(source.classes) == 10
    for i in (0, 17, 9_999):
        assert source.classes.index(source[i]["label"]) == labels[i] and source[i]["image"].shape == (32, 32, 3)
