"""Small images, folders and archives of them, and the data of a run on them."""

import io
import tarfile
import types

import ml_collections
import numpy as np
import PIL.Image
import pytest

from lwt.data.kinds import images

NAMES = ("ant", "bee")


def pixels(count, *, size=8, channels=3, seed=0):
    """Random images."""
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, channels), np.uint8)


def encoded(image, kind="png"):
    """The bytes of an image file."""
    file = io.BytesIO()
    PIL.Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file, kind)
    return file.getvalue()


def classes(folder, count, *, seed=0, **other):
    """Writes files by class; returns {path in the folder: pixels}."""
    written = {}
    for i, image in enumerate(pixels(count, seed=seed, **other)):
        path = folder / NAMES[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(image))
        written[f"{NAMES[i % 2]}/{path.name}"] = image
    return written


def archive(path, members):
    """Writes a tar archive of {name: bytes}."""
    with tarfile.open(path, "w:xz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


@pytest.fixture(scope="session")
def pictures():
    """The functions `pixels`, `encoded`, `classes` and `archive`, and the NAMES of the classes."""
    return types.SimpleNamespace(pixels=pixels, encoded=encoded, classes=classes, archive=archive, NAMES=NAMES)


@pytest.fixture
def make_images(tmp_path, monkeypatch):
    """``make_images() -> images.Images`` of ``folder:a`` in the temporary folder, which holds data and caches."""
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))

    def make(name="folder:a", workdir="run", seed=0, **other):
        section = {
            **{"train": name, "validation": "", "test": "", "label": "label", "leak_free": False},
            **{
                "max_train_records": 0,
                "label_separator": "",
                "max_megabytes": 256.0,
                "max_malformed": 0.1,
                "image_size": 0,
                "channels": 0,
                "randaugment": (),
            },
            **{"rows": 6, "eval_batch": 8},
        }
        return images.Images(ml_collections.ConfigDict(section | other), tmp_path / workdir, seed=seed)

    return make
