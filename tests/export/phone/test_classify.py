"""Files for phones predict what the run predicts in JAX."""

import json
import pathlib

import jax
import numpy as np
import pytest

from lwt import errors, extras, registry
from lwt.export.phone import classify, litert, onnx
from lwt.runs import config_file, experiment

pytestmark = pytest.mark.usefixtures("compiled_once")
ROOT = pathlib.Path(__file__).parents[3]
MODELS = {
    "embbert": dict(width=64, reduced=8, layers=2, kernel_size=3, expansion=2, pool="rms"),
    "bert": dict(name="bert", width=64, layers=1),
    "embedder": dict(name="embedder", width=16, reduced=4, pool="pair"),
    "ngrams": dict(name="embedder", width=16, reduced=4, pool="rms", ngram_weights=999),
    "mamba": dict(name="mamba", width=16, layers=2),
    "vit": dict(image_size=8, channels=2, patch=4, width=8, layers=1, heads=2, hidden=12),
    "vit-hybrid": dict(
        image_size=8, channels=2, patch=4, width=8, layers=1, heads=2, hidden=12, stem="pooled", pool="sequence"
    ),
    "vit-distilled": dict(
        image_size=8, channels=2, patch=4, width=8, layers=1, heads=2, hidden=12, distilled=True, pool="tokens"
    ),
    "lh_vit": dict(
        image_size=32, channels=1, stem=8, widths=(8, 8, 16), width=8, heads=2, hidden=8, layers=1, summary=8
    ),
}  # fmt: skip
ATTENTIONS = {  # arguments for short texts
    "linformer": {"rank": 4, "max_length": 12},
    "local": {"window": 4},
    "nystrom": {"landmarks": 4},
    "softmax": {"block": 4},
    "sparse": {"stride": 4, "summary": 1},
}
FIXED = {("onnx", "folded"), ("onnx", "local"), ("onnx", "sparse")}  # files for one record of one length
ERRORS = {"float32": 1e-5, "dynamic": 0.1, "int8": 0.5}


for name in registry.ATTENTIONS.names():
    attention = {"name": name, **ATTENTIONS.get(name, {})}
    MODELS[f"attention_{name}"] = dict(name="bert", width=16, layers=1, heads=2, attention=attention)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, untrained):
    """``runs(model)``: an `experiment.Experiment` with random weights."""
    folder = tmp_path_factory.mktemp("runs")
    return lambda name: untrained(_config(folder, name), folder / name)


def _config(folder, name):
    model = MODELS[name]
    if "image_size" not in model:
        config = config_file.load(f"{ROOT}/configs/embbert_finetune.py:data=folder:{_texts(folder)},vocabulary=120")
        config.data.row_length = 12
        config.data.fields = ("text", "second") if model.get("pool") == "pair" else ("text",)
        model = {"max_length": 12, "head": "classify", **({} if "name" in model else config.model), **model}
    else:
        side, channels = model["image_size"], model["channels"]
        config = config_file.load(f"{ROOT}/configs/vit.py:data=folder:{_images(folder / name, side, channels)}")
        config.data.channels = config.data.image_size = config.task.crop = 0
        model = {"name": name.partition("-")[0], **model}
    with config.unlocked():
        config.model, config.precision, config.data.eval_batch = model, "float32", 8
    return config


def _texts(folder):
    words = "cold old bold warm long dark young slow great small".split()
    rows = [
        {"text": f"{words[i % 10]} {words[i % 7]}", "second": words[i % 9], "label": f"class {i % 3}"}
        for i in range(60)
    ]
    (folder / "texts").mkdir(exist_ok=True)
    (folder / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "texts"


def _images(folder, side, channels):
    folder.mkdir(exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (60, side, side, channels), np.uint8)
    np.savez(folder / "train.npz", image=pixels, label=np.arange(60) % 3)
    return folder


def doubles(path):
    """The arrays of 64-bit floats in an ONNX file, which runtimes for phones may lack."""
    import onnx as package

    graph = package.shape_inference.infer_shapes(package.load(path)).graph
    kinds = {x.name: x.type.tensor_type.elem_type for x in [*graph.value_info, *graph.output]}
    kinds |= {x.name: x.data_type for x in graph.initializer}
    return [name for name, kind in kinds.items() if kind == package.TensorProto.DOUBLE]


@pytest.mark.parametrize("runtime", classify.RUNTIMES)
@pytest.mark.parametrize("model", MODELS)
def test_a_file_predicts_what_the_run_predicts(runs, tmp_path, model, runtime):
    source, size = runs(model), {}
    for format in ("float32", "dynamic"):
        report = classify.export(source, tmp_path / "made" / format, runtime=runtime, format=format)
        size[format] = report["bytes"]
        assert report["relative_error"] < ERRORS[format]
        assert report["bytes"] == (tmp_path / "made" / format).stat().st_size
        assert report["records"] == len(source.evaluate()[3]) and report["milliseconds"] > 0
        assert abs(report["loss"] - report["jax_loss"]) < ERRORS[format] * max(1, report["jax_loss"])
    assert report["relative_error"] > 1e-5
    fixed = runtime == "litert" or (runtime, model.removeprefix("attention_")) in FIXED
    assert {sizes[0] for sizes in report["inputs"].values()} == {1 if fixed else "batch"}
    if runtime == "onnx":
        assert not doubles(tmp_path / "made/float32")
    if model == "bert":  # nearly all of its weights are one table
        assert size["float32"] - size["dynamic"] > 2.9 * source.weights["embed/token"].size


def test_a_litert_file_with_several_lengths(runs, tmp_path):
    sizes = {}
    for format in ("float32", "dynamic"):
        source = runs("bert")
        report = classify.export(source, tmp_path / format, format=format, lengths=(5, 8))
        sizes[format] = report["bytes"], classify.export(source, tmp_path / format, format=format)["bytes"]
        assert report["relative_error"] < ERRORS[format] and report["lengths"] == [5, 8]
        assert report["inputs"]["ids"] == [1, 12]
    assert all(several - one < 0.5 * one for several, one in sizes.values()), "the weights are there once"
    with pytest.raises(errors.ConfigError, match="--lengths=8,12 must differ, and be less than 12"):
        classify.export(source, tmp_path / "x", lengths=(8, 12))
    for more in ({"runtime": "onnx"}, {"format": "int8"}):
        with pytest.raises(errors.ConfigError, match="--lengths is for LiteRT"):
            classify.export(source, tmp_path / "x", lengths=(8,), **more)
    with pytest.raises(errors.ConfigError, match="--lengths=8 has no effect on images"):
        classify.export(runs("vit"), tmp_path / "x", lengths=(8,))


def test_int8_with_calibration(runs, tmp_path):
    report = classify.export(runs("bert"), tmp_path / "int8", format="int8", length=11, records=3)
    assert report["records"] == 3 and report["inputs"] == {"ids": [1, 11], "segments": [1, 11]}
    assert 1e-5 < report["relative_error"] < ERRORS["int8"]


@pytest.mark.parametrize(
    ("runtime", "name", "operation"),
    [
        (litert, "LiteRT", jax.lax.population_count),
        (onnx, "ONNX", lambda x: jax.pure_callback(lambda x: x, x, x)),
    ],
)
def test_unsupported_operations_and_damaged_files(runtime, name, operation):
    with pytest.raises(errors.ConfigError, match=rf"cannot be converted to {name}: (.|\n)*(PopulationCount|callback)"):
        runtime.convert(lambda batch: {"y": operation(batch["x"])}, {"x": np.ones(3, np.int32)})
    with pytest.raises(errors.ConfigError, match=f"{name}.* cannot run the file: "):
        runtime.runner(b"none")


@pytest.mark.parametrize("runtime", classify.RUNTIMES)
def test_missing_packages(runs, tmp_path, monkeypatch, runtime):
    monkeypatch.setattr(classify.RUNTIMES[runtime], "PACKAGES", ("no_such_package",))
    monkeypatch.setitem(extras.EXTRAS, "no_such_package", runtime)
    with pytest.raises(errors.ConfigError, match=rf"no_such_package.*: pip install 'lwt\[{runtime}\]'"):
        classify.export(runs("embedder"), tmp_path / "x", runtime=runtime)


def test_wrong_arguments_are_refused(runs, tmp_path):
    source = runs("embedder")
    with pytest.raises(errors.ConfigError, match="format='int4'; did you mean 'int8'"):
        classify.export(source, tmp_path / "x", format="int4")
    with pytest.raises(errors.ConfigError, match="format='int8'; choose from dynamic, float32"):
        classify.export(source, tmp_path / "x", runtime="onnx", format="int8")
    with pytest.raises(errors.ConfigError, match="format='int8' is for texts; for images it must be 'dynamic'"):
        classify.export(runs("vit"), tmp_path / "x", format="int8")
    half = experiment.load(source.workdir, precision="bfloat16")
    with pytest.raises(errors.ConfigError, match="precision='bfloat16'; open it with precision='float32'"):
        classify.export(half, tmp_path / "x")
    assert classify.export(experiment.load(half.workdir, precision="float32"), tmp_path / "y")["agreement"] == 1
    (tmp_path / "y").unlink()
    with pytest.raises(errors.ConfigError, match="--length=8 has no effect on images"):
        classify.export(runs("vit"), tmp_path / "x", length=8)
    with pytest.raises(errors.ConfigError, match="a record has 6 tokens; --length=3 must be"):
        classify.export(source, tmp_path / "x", length=3)
    assert not any(tmp_path.iterdir())
