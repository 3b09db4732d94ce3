"""The cache of decoded images: decoded once, malformed images named and counted, damage repaired."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from lwt import errors
from lwt.data import sources
from lwt.data.images import cache, decoding


def test_images_are_decoded_once(make_images, tmp_path, monkeypatch, pictures):
    pictures.classes(tmp_path / "a/train", 20)
    pictures.classes(tmp_path / "a/test", 4, seed=1)
    first = next(make_images().training())
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "decode", None)
        again = make_images(workdir="other")
        np.testing.assert_array_equal(next(again.training())["image"], first["image"])
    files = sorted((tmp_path / "cache/images").glob("[!.]*"))
    assert {path.suffix for path in files} == {".npy", ".json"} and len(files) == 4
    for path in files:
        path.write_bytes(b"spoilt")
    np.testing.assert_array_equal(next(make_images(workdir="third").training())["image"], first["image"])
    assert make_images(workdir="small", image_size=4).shape == (4, 4, 3)


def test_malformed_images_are_named_and_counted(make_images, tmp_path, caplog, pictures):
    pictures.classes(tmp_path / "a/train", 40)
    pictures.classes(tmp_path / "a/test", 4, seed=1)
    broken, other = tmp_path / "a/train/ant/000.png", tmp_path / "a/train/bee/001.png"
    broken.write_bytes(pictures.encoded(pictures.pixels(1)[0])[:60])
    other.write_bytes(pictures.encoded(pictures.pixels(1, size=5)[0]))
    data = make_images()
    assert len(data.splits.train) + len(data.splits.validation) == 38
    assert f"{broken} cannot be decoded as an image" in caplog.text
    assert f"{other}: it is 5 × 5 × 3 uint8, but the first image is 8 × 8 × 3 uint8" in caplog.text
    with pytest.raises(errors.DataError, match=rf"2 of 40 images are malformed \(5.0%, allowed 1.0%\): .*{broken}"):
        _ = make_images(workdir="strict", max_malformed=0.01).splits
    assert len(make_images(workdir="resized", image_size=8).splits.train.malformed) == 1
    (tmp_path / "a/train/cow").mkdir()
    (tmp_path / "a/train/cow/1.png").write_bytes(b"no image")
    with pytest.raises(errors.DataError, match="no image of class 'cow' can be used: "):
        _ = make_images(workdir="classes").splits


def test_labels_and_the_cache_are_checked(tmp_path, monkeypatch, pictures):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    records = [
        {"image": image, "label": [i] if i == 3 else np.int64(i % 2), "id": i}
        for i, image in enumerate(pictures.pixels(20))
    ]
    source = sources.Source("made", records, ("image", "label", "id"), "f")
    found = cache.decoded(source, max_malformed=0.05)
    assert found.malformed == ("made, record 3: its label must be text or a number, not [3]",)
    assert [record["id"] for record in found] == [*range(3), *range(4, 20)] and set(found.fields) == {*source.fields}
    np.testing.assert_array_equal(found[5]["image"], records[6]["image"])
    (tmp_path / "file").touch()
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "file"))
    with pytest.raises(errors.DataError, match="file/images cannot be written .*; set LWT_CACHE"):
        cache.decoded(source)


def test_images_in_parquet_as_the_hub_stores_them(make_images, tmp_path, pictures):
    (tmp_path / "a/data").mkdir(parents=True)
    shown = pictures.pixels(40)
    rows = [
        {"image": {"bytes": pictures.encoded(image), "path": f"{i}.png"}, "label": i % 2}
        for i, image in enumerate(shown)
    ]
    for shard in (0, 1):
        table = pyarrow.Table.from_pylist(rows[20 * shard : 20 * shard + 20])
        pyarrow.parquet.write_table(table, tmp_path / f"a/data/train-0000{shard}-of-00002.parquet")
    data = make_images()
    seen = {record["image"].tobytes(): record["label"] for record in data.splits.train}
    assert len(seen) == 33 and data.labels.names == ("0", "1")
    assert all(seen.get(image.tobytes(), i % 2) == i % 2 for i, image in enumerate(shown))
