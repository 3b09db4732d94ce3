"""Archives: the classes of their members, shards, and damage that must lose nothing silently."""

import io
import tarfile

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources


def member(name, content=b"", **more):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, io.BytesIO(content)


def packed(path, members):
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as file:
        for info, content in members:
            file.addfile(info, content)
    return sources.load(f"folder:{path.parent}").records


@pytest.fixture
def four(tmp_path, pictures, monkeypatch):
    """Four encoded images, and a folder for archives."""
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    return [pictures.encoded(image) for image in pictures.pixels(4)], tmp_path


def test_classes_in_an_archive(four):
    images, folder = four
    for names in (
        ("ant/0.png", "ant/deep/1.png", "bee/2.png", "bee/3.png"),
        ("root/ant/0.png", "root/ant/deep/1.png", "root/bee/2.png", "root/bee/3.png"),
        ("./ant/0.png", "./ant/1.png", "./bee/2.png", "./bee/x/y/3.png"),
        ("0_ant.png", "1_ant.png", "2_bee.png", "3_bee.png"),
    ):
        records = packed(folder / "train.tar", map(member, (*names, "README"), (*images, b"x")))
        assert [record["label"] for record in records] == ["ant", "ant", "bee", "bee"] and not records.notes
    link = member("bee/again.png", type=tarfile.LNKTYPE, linkname="ant/0.png")
    records = packed(folder / "train.tar", [member("ant/0.png", images[0]), member("bee/1.txt", b"x"), link])
    assert [record["label"] for record in records] == ["ant", "bee"] and "not read: 1 .txt" in records.notes[0]
    np.testing.assert_array_equal(records[0]["image"], records[1]["image"])
    for names, message in (
        (("ant/0.png", "bee/1.heic"), "class 'bee' has no image that can be read, only 1 .heic"),
        (("train/ant/0.png", "test/ant/1.png"), "holds the splits test, train; make one archive of each"),
    ):
        with pytest.raises(errors.DataError, match=message):
            len(packed(folder / "train.tar", map(member, names, images)))


def test_shards_of_archives_are_one_split(four):
    images, folder = four
    for i, name in enumerate(("ant", "bee")):
        path = folder / f"train-0000{i}-of-00002.tar"
        with tarfile.open(path, "w") as file:
            for j in (0, 1):
                file.addfile(*member(f"{name}/{j}.png", images[2 * i + j]))
    source = sources.load(f"folder:{folder}")
    assert [record["label"] for record in source] == ["ant", "ant", "bee", "bee"] and len(source.parts) == 2
    assert sources.splits(f"folder:{folder}") == ["train"] and source.name == f"folder:{folder}@train"
    path.unlink()
    with pytest.raises(errors.DataError, match="of 2 shards, those numbered 1 are missing"):
        sources.load(f"folder:{folder}")


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_a_damaged_archive_loses_nothing_silently(four, suffix):
    images, folder = four
    path = folder / f"train{suffix}"
    assert len(packed(path, [member(f"ant/{i}.png", image) for i, image in enumerate(images)])) == 4
    whole = path.read_bytes()
    damaged = {"joined": whole + whole}
    if suffix == ".tar":
        headers = [at for at in range(0, len(whole), 512) if whole[at : at + 4] == b"ant/"]
        damaged |= {"cut before a header": whole[: headers[2]], "cut in a header": whole[: headers[2] + 100]}
        damaged["cut in an image"] = whole[: headers[3] + 520]
        for at in (headers[1], headers[2] + 5, headers[3] + 150):
            damaged[f"flipped at {at}"] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    else:
        damaged |= {
            "cut": whole[: len(whole) // 2],
            "cut at the end": whole[:-6],
            "flipped": whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:],
        }
    for name, content in damaged.items():
        path.write_bytes(content)
        with pytest.raises(errors.DataError, match=r"train.tar.* is damaged after \d images"):
            print(name, len(sources.load(f"folder:{folder}").records))
