"""LiteRT files say what the run in JAX says; their layers are the models' own, in another form."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.analysis import config_files
from lwt.export import litert, litert_convert, litert_layers
from lwt.layers import separable
from lwt.models import embbert

pytestmark = pytest.mark.usefixtures("compiled_once")
ROOT = pathlib.Path(__file__).parents[2]
MODELS = {
    "embbert": dict(width=16, reduced=4, layers=2, kernel_size=3, expansion=2, pool="rms"),
    "bert": dict(name="bert", width=64, layers=1),
    "embedder": dict(name="embedder", width=16, reduced=4),
    "vit": dict(image_size=8, channels=2, patch=4, width=8, layers=1, heads=2, hidden=12),
    "lh_vit": dict(
        image_size=32, channels=1, stem=8, widths=(8, 8, 16), width=8, heads=2, hidden=8, layers=1, summary=8
    ),
}  # fmt: skip
ERRORS = {"float32": 1e-5, "dynamic": 0.1, "int8": 0.5}


@pytest.fixture
def packages():
    """The packages of the extra, where they are installed."""
    for name in litert_convert.PACKAGES:
        pytest.importorskip(name, reason=f"needs {litert_convert.INSTALL}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, untrained):
    """``runs(model) -> the opened run``, with random weights."""
    folder = tmp_path_factory.mktemp("runs")
    return lambda name: untrained(_config(folder, name), folder / name)


def _config(folder, name):
    model = MODELS[name]
    if "image_size" not in model:
        config = config_files.load(f"{ROOT}/configs/embbert_finetune.py:data=folder:{_texts(folder)},vocabulary=120")
        config.data.row_length = 12
        model = {"max_length": 12, "head": "classify", **({} if "name" in model else config.model), **model}
    else:
        side, channels = model["image_size"], model["channels"]
        config = config_files.load(f"{ROOT}/configs/vit.py:data=folder:{_images(folder / name, side, channels)}")
        config.data.channels = config.data.image_size = config.task.crop = 0
        model = {"name": name, **model}
    with config.unlocked():
        config.model, config.precision, config.data.eval_batch = model, "float32", 8
    return config


def _texts(folder):
    words = "cold old bold warm long dark young slow great small".split()
    rows = [{"text": f"{words[i % 10]} {words[i % 7]}", "label": f"class {i % 3}"} for i in range(60)]
    (folder / "texts").mkdir(exist_ok=True)
    (folder / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "texts"


def _images(folder, side, channels):
    folder.mkdir(exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (60, side, side, channels), np.uint8)
    np.savez(folder / "train.npz", image=pixels, label=np.arange(60) % 3)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_a_file_says_what_the_run_says(packages, runs, tmp_path, model):
    opened, size = runs(model), {}
    for format in ("float32", "dynamic"):
        report = litert.export(opened, tmp_path / "made" / format, format=format)
        size[format] = report["bytes"]
        assert report["relative_error"] < ERRORS[format]
        assert report["bytes"] == (tmp_path / "made" / format).stat().st_size
        assert report["records"] == len(opened.evaluate()[3]) and report["milliseconds"] > 0
        assert abs(report["loss"] - report["jax_loss"]) < ERRORS[format] * max(1, report["jax_loss"])
    assert report["relative_error"] > 1e-5 and size["dynamic"] < size["float32"]
    table = opened.weights.get("embed/token")
    if model == "bert":  # nearly all of its weights
        assert size["float32"] - size["dynamic"] > 2.9 * table.size


def test_calibrated(packages, runs, tmp_path):
    report = litert.export(runs("bert"), tmp_path / "int8", format="int8", length=11, records=3)
    assert report["records"] == 3 and report["inputs"] == {"ids": [1, 11], "segments": [1, 11]}
    assert 1e-5 < report["relative_error"] < ERRORS["int8"]


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        (
            embbert.Embbert(
                9, max_length=7, width=6, reduced=3, layers=2, kernel_size=19, expansion=2, head="classify"
            ),
            {"ids": jnp.array([[3, 1, 8, 5, 0]]), "segments": jnp.array([[1, 1, 2, 2, 0]])},
        ),
        (
            separable.Separable(5, kernel_size=3, stride=2, use_bias=True),
            jnp.asarray(np.random.default_rng(0).normal(size=(1, 7, 6, 12)), jnp.float32),
        ),
    ],
    ids=["embbert", "separable"],
)
def test_the_layers_forms_are_the_layers(model, batch):
    shapes = trees.flatten(jax.eval_shape(lambda: model.init(jax.random.key(0), batch)["params"]))
    generator = np.random.default_rng(0)
    params = trees.unflatten({n: jnp.asarray(generator.normal(0, 0.5, w.shape), "float32") for n, w in shapes.items()})
    own = jax.jit(model.apply)({"params": params}, batch)
    with litert_layers.forms(batch):
        formed = jax.jit(lambda params, batch: model.apply({"params": params}, batch)).lower(params, batch)
    assert "feature_group_count = 12" in formed.as_text()
    np.testing.assert_allclose(formed.compile()(params, batch), own, atol=2e-5 * np.abs(own).max())


def test_an_operation_that_litert_lacks(packages):
    with pytest.raises(errors.ConfigError, match="cannot be converted to LiteRT: (.|\n)*PopulationCount"):
        litert_convert.convert(lambda batch: {"y": jax.lax.population_count(batch["x"])}, {"x": np.ones(3, np.int32)})
    with pytest.raises(errors.ConfigError, match="LiteRT does not run the file: "):
        litert_convert.runner(b"none")


def test_what_is_refused(runs, tmp_path, monkeypatch):
    opened = runs("embedder")
    with monkeypatch.context() as patch:
        patch.setattr(litert_convert, "PACKAGES", ("no_such_package",))
        with pytest.raises(errors.ConfigError, match=r"no_such_package.*: pip install 'lwt\[litert\]'"):
            litert.export(opened, tmp_path / "x")
    monkeypatch.setattr(litert_convert, "PACKAGES", ())
    with pytest.raises(errors.ConfigError, match="format='int4'; did you mean 'int8'"):
        litert.export(opened, tmp_path / "x", format="int4")
    with pytest.raises(errors.ConfigError, match="format='int8' is for texts; for images it should be 'dynamic'"):
        litert.export(runs("vit"), tmp_path / "x", format="int8")
    with pytest.raises(errors.ConfigError, match="a record has 4 tokens, more than --length=3"):
        litert.export(opened, tmp_path / "x", length=3)
    assert not any(tmp_path.iterdir())
