"""A Vision Transformer's folder as a base: the same answers, a new head, and what does not fit."""

import json
import types

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from lwt import errors, trees
from lwt.export.torch import hf
from lwt.huggingface import images, reading
from lwt.models import vit
from lwt.runs import config_file, experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")
SIZES = dict(outputs=2, image_size=8, patch=4, width=8, layers=2, heads=2, hidden=12, norm_epsilon=1e-12)
SETTINGS = {
    **{"do_resize": True, "size": {"height": 8, "width": 8}, "do_rescale": True, "rescale_factor": 1 / 255},
    **{"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]},
}


def folder_of(model, folder):
    """Writes a folder of a model with random weights; returns these."""
    generator = np.random.default_rng(0)
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), model.example()))["params"])
    weights = {name: generator.normal(0, 0.3, w.shape).astype(np.float32) for name, w in shapes.items()}
    config = ml_collections.ConfigDict({"model": {"name": "vit"}, "task": {"name": "classify_images"}})
    source = types.SimpleNamespace(config=config, model=model, weights=weights, labels=("no", "yes"), tokenizer=None)
    hf.write(source, folder)
    (folder / images.SETTINGS).write_text(json.dumps(SETTINGS))
    return weights


@pytest.fixture
def pictures(tmp_path):
    """A folder of images in three classes."""
    generator = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for split, count in (("train", 24), ("test", 6)):
        pixels = generator.integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)
        np.savez(tmp_path / f"pictures/{split}.npz", image=pixels, label=np.arange(count) % 3)
    return tmp_path / "pictures"


@pytest.mark.parametrize("fields", [{}, dict(distilled=True), dict(distilled=True, pool="tokens")])
def test_answers(fields, tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    model = vit.ViT(**SIZES, **fields)
    weights = folder_of(model, tmp_path / "vit")
    opened = experiment.load(f"hf:{tmp_path}/vit")
    assert opened.labels == ("no", "yes") and opened.config.data.kind == "images"
    pixels = np.random.default_rng(1).integers(0, 256, (3, 8, 8, 3)).astype(np.uint8)
    for i, image in enumerate(pixels):
        np.save(tmp_path / f"{i}.npy", image)
    mean, std = (np.array(SETTINGS[f"image_{key}"], np.float32) for key in ("mean", "std"))
    wanted = model.apply(
        {"params": trees.unflatten(weights)}, {"image": jnp.asarray((pixels / np.float32(255) - mean) / std)}
    )
    answers = [("no", "yes")[i] for i in np.argmax(wanted, axis=1)]
    assert opened.predict([str(tmp_path / f"{i}.npy") for i in range(3)]) == answers
    for name, w in weights.items():
        np.testing.assert_allclose(opened.weights[name], w, atol=1e-6, err_msg=name)


def test_a_new_head(pictures, tmp_path, monkeypatch):
    """Two steps with a head for other classes; the folder, of a model without a head, gives the rest."""
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    weights = folder_of(vit.ViT(**SIZES), tmp_path / "vit")
    arrays = reading.weights(tmp_path / "vit")
    bare = {name.removeprefix("vit."): array for name, array in arrays.items() if not name.startswith("classifier")}
    hf.folders.write_arrays(tmp_path / "vit/model.safetensors", bare)
    spec = f"configs/vit.py:base=hf:{tmp_path}/vit,data=folder:{pictures},rate=0.001,precision=float32"
    train.run(config_file.load(f"{spec},smoke=true"), str(tmp_path / "run"))
    tuned = experiment.load(str(tmp_path / "run"), checkpoint="last")
    assert tuned.weights["head/kernel"].shape == (8, 3) and tuple(tuned.config.task.mean) == (0.5, 0.4, 0.3)
    for name, w in weights.items():
        if not name.startswith("head"):
            np.testing.assert_allclose(tuned.weights[name], w, atol=0.01, err_msg=name)
    with pytest.raises(errors.LwtError, match="image_size=16: .* has image_size=8"):
        config_file.load(f"{spec},image_size=16")


def test_other_preparations_of_images_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    folder_of(vit.ViT(**SIZES), tmp_path / "vit")
    path = tmp_path / "vit" / images.SETTINGS
    for change, message in (
        (dict(do_rescale=False), "must be multiplied by rescale_factor=0.00392"),
        (dict(rescale_factor=1 / 127), "must be multiplied by rescale_factor=0.00392"),
        (dict(size={"height": 9, "width": 8}), "size={'height': 9, 'width': 8} must be the model's image_size, 8"),
        (dict(do_center_crop=True, crop_size=7), "crop_size=7 must be the model's image_size, 8"),
        (dict(image_mean=[0.5]), r"image_mean=\[0.5\] must be 3 numbers, one per channel"),
        (dict(image_std=None), "image_std=None must be 3 numbers"),
    ):
        path.write_text(json.dumps(SETTINGS | change))
        with pytest.raises(errors.CheckpointError, match=message):
            experiment.load(f"hf:{tmp_path}/vit")
    path.write_text(json.dumps(SETTINGS | dict(image_std=[1, 1, 1])))
    assert tuple(experiment.load(f"hf:{tmp_path}/vit").config.task.std) == (1.0, 1.0, 1.0)
    path.write_text(json.dumps(SETTINGS | dict(do_center_crop=True, size=11, crop_size=8, do_normalize=False)))
    assert tuple(experiment.load(f"hf:{tmp_path}/vit").config.task.std) == (1.0,)
    path.unlink()
    with pytest.raises(errors.CheckpointError, match="preprocessor_config.json is missing"):
        experiment.load(f"hf:{tmp_path}/vit")
