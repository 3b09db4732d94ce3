"""A folder to serve answers as the run does, without lwt and JAX."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from lwt import errors
from lwt.data import cleaner, text
from lwt.export import bundle
from lwt.export.phone import classify
from lwt.export.service import folder, predict
from lwt.runs import calibration, config_file, experiment
from tests.huggingface import small

pytestmark = pytest.mark.usefixtures("compiled_once")
ROOT = pathlib.Path(__file__).parents[3]
RUNS = {
    "classes": dict(name="embbert", width=16, reduced=4, layers=2, kernel_size=3),
    "pairs": dict(name="bert", width=16, hidden=16, layers=1, heads=2, attention="linear"),
    "several": dict(name="embedder", width=8, reduced=4),
    "numbers": dict(name="mamba", width=8, layers=1),
    "fixed": dict(name="bert", width=16, hidden=16, layers=1, heads=2, attention="folded"),
}
TEXTS = ["warm and <b>Sunny</b> &amp; dry", "see https://lwt.org/x, café", "cold " * 30, "", "Ünïcode\u200b ﬁne 42"]
ALONE = ("numpy", "numpy.libs", "onnxruntime", "sentencepiece", "sentencepiece.libs", "tokenizers")
# Started with -I -S, Python finds its own library and nothing that is installed.
BARE = """
import importlib.util, json, sys
sys.path[:0] = sys.argv[1:3]
assert not any(map(importlib.util.find_spec, ("jax", "lwt", "flax", "ml_collections")))
import predict
model, texts = predict.load(sys.argv[2]), json.load(sys.stdin)
shares = model.predict_proba(texts).tolist() if model.labels else []
answers = model.embed(texts).tolist() if model.settings["answers"] == "vectors" else model.predict(texts)
print(json.dumps([model.outputs(texts).tolist(), answers, shares, list(sys.modules)]))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, untrained):
    """``{name: run}`` with random weights."""
    base, words = tmp_path_factory.mktemp("runs"), "cold old bold warm long dark young slow great small".split()
    made = {}
    for name, model in RUNS.items():
        (base / f"{name}-texts").mkdir()
        rows = [
            {"text": f"{words[i % 10]} {words[i % 7]}", "second": words[i % 9], "label": f"class {i % 3}"}
            | ({"label": i / 7} if name == "numbers" else {"label": "a|b c|"[: i % 6]} if name == "several" else {})
            for i in range(60)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (base / f"{name}-texts/train.jsonl").write_text(lines)
        config = config_file.load(f"{ROOT}/configs/embbert_finetune.py:data=folder:{base}/{name}-texts,vocabulary=120")
        config.data.row_length, config.data.eval_batch, config.data.cut = 24, 8, "middle" if name == "pairs" else "end"
        config.data.fields = ("text", "second") if name == "pairs" else ("text",)
        with config.unlocked():
            config.model = {"head": "classify", "max_length": 24, **model}
            config.task = {"name": {"numbers": "regress", "several": "multilabel"}.get(name, "classify")}
            config.data.label_separator = "|" if name == "several" else ""
            config.precision = "float32"
        made[name] = untrained(config, base / name)
    return made


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory):
    """``{name: (run, folder, report)}``."""
    base = tmp_path_factory.mktemp("folders")
    return {name: (run, base / name, folder.write(run, base / name)) for name, run in runs.items()}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """``bare(folder, texts)``: what a Python without lwt and JAX answers."""
    links = tmp_path_factory.mktemp("links")
    site = pathlib.Path(importlib.util.find_spec("numpy").origin).parents[1]
    for name in ALONE:
        if (site / name).exists():
            (links / name).symlink_to(site / name)

    def bare(place, texts):
        command = [sys.executable, "-I", "-S", "-c", BARE, str(links), str(place)]
        done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return bare


@pytest.mark.parametrize("name", RUNS)
def test_a_python_without_lwt_gives_the_answers_of_lwt(written, bare, name):
    run, place, report = written[name]
    drawn = [" ".join("warm old cold".split()[i * k % 3] for i in range(k)) for k in range(0, 30, 2)]
    texts = [*TEXTS, *drawn]
    if name == "pairs":
        texts = [f"{first}\t{second}" for first, second in zip(texts, texts[7:] + texts[:7], strict=True)]
    outputs, answers, shares, modules = bare(place, texts)
    wanted = run.outputs(texts)[0]
    np.testing.assert_allclose(outputs, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)
    assert answers == run.predict(texts)
    if name != "numbers":
        np.testing.assert_allclose(shares, run.predict_proba(texts), atol=1e-5)
    assert not {"jax", "lwt"} & {module.split(".")[0] for module in modules}
    assert report["records"] == len(run.evaluate()[3]) and report["largest_error"] < 1e-5
    assert report.get("agreement", 1) == 1 and report["texts_per_second"] > 0


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """``{name: run}``: a classifier with byte pairs and an encoder with word pieces, in the format of transformers."""
    base = tmp_path_factory.mktemp("imported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LWT_CACHE", str(base / "cache"))
        small.write(base / "classifier", "roberta", head="classify", labels=("no", "yes", "maybe"))
        small.write(base / "encoder", "electra")
        yield {name: experiment.load(f"hf:{base}/{name}") for name in ("classifier", "encoder")}


def test_a_classifier_and_an_encoder_of_hugging_face(imported, bare, tmp_path, caplog):
    texts = [*small.TEXTS[:4], *TEXTS, "two  spaces\tand\u00a0more"]
    for name, run in imported.items():
        report = folder.write(run, tmp_path / name)
        assert report["data"] == "texts of lwt.export.service" and report["largest_error"] < 1e-5
        assert report["cut"] and caplog.text.count("which were cut") == (name == "encoder")
        assert report.get("least_cosine", report.get("agreement")) > 0.9999
    outputs, answers, shares, _ = bare(tmp_path / "classifier", texts)
    np.testing.assert_allclose(shares, imported["classifier"].predict_proba(texts), atol=1e-5)
    assert answers == imported["classifier"].predict(texts)
    _, vectors, _, modules = bare(tmp_path / "encoder", texts)
    np.testing.assert_allclose(vectors, imported["encoder"].embed(texts), atol=1e-5)
    assert "tokenizers" in modules and "sentencepiece" not in modules
    model = predict.load(tmp_path / "encoder")
    with pytest.raises(TypeError, match="gives vectors: use embed"):
        model.predict(texts)
    command = [sys.executable, tmp_path / "encoder/predict.py", "-"]
    done = subprocess.run(command, input=texts[0], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.array(done.stdout.split(), float), vectors[0], atol=1e-4)


def test_a_model_of_similarity_gives_vectors(runs, untrained, tmp_path):
    config = runs["numbers"].config.copy_and_resolve_references()
    with config.unlocked():
        config.model, config.task = {**config.model, "head": "none"}, {"name": "similarity", "high": 9.0}
        config.data.kind, config.data.fields = "compared", ("text", "second")
    run = untrained(config, tmp_path / "run")
    report = folder.write(run, tmp_path / "vectors")
    assert report["least_cosine"] > 0.9999 and report["records"] == len(folder.PROBES)
    model = predict.load(tmp_path / "vectors")
    np.testing.assert_allclose(model.embed(["warm and cold"]), run.embed(["warm and cold"]), atol=1e-5)
    with pytest.raises(errors.ConfigError, match="use lwt.export.service to export its encoder"):
        classify.export(run, tmp_path / "x", runtime="onnx")


def test_a_run_whose_data_are_gone(runs, tmp_path, caplog):
    bundle.write(runs["pairs"], tmp_path / "bundle")
    config = json.loads((tmp_path / "bundle/config.json").read_text())
    moved = pathlib.Path(config["data"]["train"].removeprefix("folder:"))
    moved.rename(tmp_path / "elsewhere")
    try:
        source = experiment.load(tmp_path / "bundle")
        report = folder.write(source, tmp_path / "x")
        with pytest.raises(errors.DataError, match="no folder"):
            folder.write(source, tmp_path / "y", data=config["data"]["train"])
    finally:
        (tmp_path / "elsewhere").rename(moved)
    assert report["data"] == "texts of lwt.export.service" and report["agreement"] == 1 and "accuracy" not in report
    assert "compared on other texts, since those of the run are missing: folder:" in caplog.text


def test_vectors_of_a_data_set(imported, runs, tmp_path):
    data = runs["classes"].config.data.train
    report = folder.write(imported["encoder"], tmp_path / "encoder", data=data, records=5)
    assert report["data"].startswith(data) and report["records"] == 5 and "accuracy" not in report


@pytest.mark.parametrize("clean", [{}, {"unicode": "NFD", "strip_accents": True, "characters": r"[\w\s.]"}])
def test_the_cleaner_is_that_of_lwt(written, clean):
    place = written["classes"][1] / "cleaner.py"
    spec = importlib.util.spec_from_file_location("cleaner_of_a_folder", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts = [
        *TEXTS,
        *small.TEXTS,
        "<script>x</script> a<!-- b --> &#0000000233;",
        "a" + "\u0316\u0301" * 40,
        "www.a.b, c!",
    ]
    assert [*map(module.Cleaner(**clean).clean, texts)] == [*map(text.Cleaner(**clean).clean, texts)]
    assert place.read_bytes() == pathlib.Path(cleaner.__file__).read_bytes()


def test_sizes_stay_open_where_the_model_can(written):
    settings = {name: json.loads((place / "settings.json").read_text()) for name, (_, place, _) in written.items()}
    assert {name: (x["rows"], x["length"]) for name, x in settings.items()} == {
        **dict.fromkeys(("classes", "pairs", "several", "numbers"), (None, None)),
        "fixed": (1, 24),
    }
    assert settings["pairs"]["texts"] == 2 and settings["numbers"]["labels"] == []


def test_the_model_carries_its_settings(written):
    import onnxruntime

    _, place, _ = written["classes"]
    carried = onnxruntime.InferenceSession(place / "model.onnx").get_modelmeta().custom_metadata_map
    settings = json.loads((place / "settings.json").read_text())
    assert settings.pop("files").keys() == {"model.onnx", "tokenizer.model"}
    assert json.loads(carried["lwt"]) == settings and settings["labels"] == ["class 0", "class 1", "class 2"]


def test_int8_answers_nearly_alike(written, tmp_path):
    run, place, _ = written["pairs"]
    report = folder.write(run, tmp_path / "int8", precision="int8", records=4)
    assert report["records"] == 4 and 1e-5 < report["largest_error"] < 0.1
    assert (tmp_path / "int8/model.onnx").read_bytes() != (place / "model.onnx").read_bytes()


def test_temperature_and_threshold(runs, tmp_path, monkeypatch):
    run = runs["classes"]
    monkeypatch.setattr(run, "calibration", calibration.Calibration(temperature=3.0))
    folder.write(run, tmp_path / "folder", records=4)
    model = predict.load(tmp_path / "folder")
    shares = model.predict_proba(TEXTS)
    np.testing.assert_allclose(shares, run.predict_proba(TEXTS), atol=1e-5)
    middle = float(np.median(shares.max(1)))
    known = model.predict(TEXTS, threshold=middle)
    assert [answer is None for answer in known] == [row.max() < middle for row in shares] and None in known


def test_thresholds_of_several_labels(runs, tmp_path, monkeypatch):
    run = runs["several"]
    bounds = tuple(np.quantile(run.predict_proba(TEXTS), 0.45, axis=0).tolist())  # between two texts
    monkeypatch.setattr(run, "calibration", calibration.Calibration(thresholds=bounds))
    folder.write(run, tmp_path / "folder", records=4)
    model = predict.load(tmp_path / "folder")
    texts = TEXTS[:4]
    assert model.predict(texts) == run.predict(texts) and len({*model.predict(texts)}) > 1
    shares = model.predict_proba(texts)
    wanted = ["|".join(name for name, share in zip(model.labels, row) if share >= 0.4) for row in shares]
    assert model.predict(texts, threshold=0.4) == wanted


def test_the_command_line(written):
    run, place, _ = written["classes"]
    lines = [text for text in TEXTS if "\n" not in text]
    (place.parent / "texts.txt").write_text("\ufeff" + "\r\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, place / "predict.py"]
    done = subprocess.run([*command, place.parent / "texts.txt"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == run.predict(lines)
    (place.parent / "texts.txt").write_text("\n".join(lines), encoding="utf-16")
    done = subprocess.run([*command, place.parent / "texts.txt"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == run.predict(lines)
    text = "\n".join(lines[:2])
    done = subprocess.run([*command, "-", "--scores"], input=text, capture_output=True, text=True, check=True)
    shares = run.predict_proba(lines[:2]).max(1)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == run.predict(lines[:2])
    np.testing.assert_allclose([float(line.split("\t")[1]) for line in done.stdout.splitlines()], shares, atol=1e-5)
    for wrong, message in (("no.txt", "no.txt cannot be read as text in UTF-8"), ("a.csv", "a.csv is a table; FILE")):
        done = subprocess.run([*command, wrong], capture_output=True, text=True)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    command[1] = written["numbers"][1] / "predict.py"
    done = subprocess.run([*command, "-", "--scores"], input=text, capture_output=True, text=True)
    assert done.returncode == 2 and "--scores and --threshold need a model with labels" in done.stderr


def test_texts_that_are_cut_are_counted(written, caplog):
    predict.load(written["classes"][1]).predict(TEXTS)
    assert "texts longer than the 24 tokens of a row, which were cut: 1" in caplog.text


def test_other_answers_and_damage_are_refused(runs, written, tmp_path, monkeypatch):
    run, place, _ = written["classes"]
    model = predict.load(place)
    with pytest.raises(ValueError, match="give a list of texts$"):
        model.predict("one text")
    with pytest.raises(ValueError, match="text 1 must be two texts"):
        predict.load(written["pairs"][1]).predict(["no tab"])
    assert model.predict([]) == [] and model.predict_proba([]).shape == (0, 3)
    monkeypatch.setitem(folder.LIMITS, "float32", (0.0, 1.0))
    with pytest.raises(errors.ConfigError, match="is not written: .* the largest error .* must be at most 0"):
        folder.write(run, tmp_path / "other")
    assert not any(tmp_path.iterdir())
    (place / "tokenizer.model").write_bytes(b"other")
    with pytest.raises(ValueError, match="tokenizer.model is damaged"):
        predict.load(place)


def test_runs_that_cannot_be_served(runs, tiny, untrained, tmp_path, monkeypatch):
    translator = untrained(tiny(), tmp_path / "translator")
    with pytest.raises(errors.ConfigError, match="task.name='translate' must classify, rate or encode texts"):
        folder.write(translator, tmp_path / "x")
    monkeypatch.setattr(runs["classes"].config, "precision", "bfloat16")
    with pytest.raises(errors.ConfigError, match="open it with precision='float32'"):
        folder.write(runs["classes"], tmp_path / "x")
