"""A run quantized into a file is the run from memory: the same logits, figures and answers, to the bit."""

import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.export import quantize as export
from lwt.layers import linear, quantized_weight
from lwt.reparam import quantize
from lwt.runs import assembly, config_file, experiment
from lwt.runs import integer_file as artefact
from lwt.training import train

ROOT = pathlib.Path(__file__).parents[2]


def config(folder, *, width=16):
    found = config_file.load(f"{ROOT}/configs/embbert_finetune.py:data=folder:{folder},vocabulary=120,smoke=true")
    found.model.update(width=width, reduced=4, layers=1, kernel_size=3, max_length=16)
    found.data.row_length, found.steps = 16, 1
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs on texts in two classes: plain, of another width, and one that quantizes under an adapter."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "texts").mkdir()
    words = "cold old bold warm long dark young slow great small".split()
    rows = [{"text": f"{words[i % 10]} {words[i % 7]} {i}", "label": f"class {i % 2}"} for i in range(60)]
    (folder / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train.run(config(folder / "texts"), folder / "plain")
    train.run(config(folder / "texts", width=20), folder / "wide")
    parts = ({"name": "quantize", "block": 8}, {"name": "lora", "rank": 2, "targets": ".*query/kernel"})
    adapted = config(folder / "texts")
    with adapted.unlocked():
        adapted.reparam = {"name": "compose", "parts": parts}
    adapted.optimizer.trainable, adapted.optimizer.learning_rate = ("adapter/.*",), 1.0
    train.run(adapted, folder / "adapted")
    return folder


def logits(opened):
    batch = {"ids": jnp.array([[2, 9, 30, 4, 0, 0]]), "segments": jnp.array([[1, 1, 1, 1, 0, 0]])}
    return jax.jit(lambda w: opened.model.apply({"params": trees.unflatten(w)}, batch))(opened.weights)


@pytest.mark.parametrize("rest", ["float16", "float32"])
def test_the_file_is_the_memory(runs, tmp_path, rest):
    opened, path = experiment.load(runs / "plain"), tmp_path / "export/int8.safetensors"
    way = quantize.Quantize(block=8)
    written = export.export(opened, path, quantization=way, rest=rest)
    assert written == path.stat().st_size == sum(artefact.parts(path).values())
    stored = artefact.as_stored(export.weights(opened, way), rest=rest)
    memory, found = opened.with_weights(stored, name="memory", step=1), opened.with_file(path)
    np.testing.assert_array_equal(logits(found), logits(memory))
    assert np.abs(logits(found) - logits(opened)).max() > 1e-6
    assert found.evaluate()[0] == memory.evaluate()[0]
    np.testing.assert_array_equal(found.evaluate()[2], memory.evaluate()[2])
    assert found.predict(["an old one"]) == memory.predict(["an old one"])
    figures = found.report()
    assert figures["weights"] == "int8.safetensors" and "weights" not in opened.report()
    names = {file.stem.rpartition(" ")[2].rpartition("_")[2] for file in (runs / "plain/eval").glob("*.json")}
    assert "weights=int8.safetensors" in names


def test_what_the_file_says_of_itself(runs, tmp_path):
    opened = experiment.load(runs / "plain")
    export.export(opened, tmp_path / "int4", quantization=quantize.Quantize(format="int4"))
    info = artefact.read_info(tmp_path / "int4")
    assert info["labels"] == ["class 0", "class 1"] and info["model"]["width"] == 16 and info["step"] == 1
    assert info["tokenizer"] == opened.tokenizer.fingerprint and info["quantization"]["format"] == "int4"
    parts = artefact.parts(tmp_path / "int4")
    kernel = 16 * 2 // 2 + 2 * 2 + 2 * 2  # integers, scales, bias
    assert parts["heads"] == kernel and parts["outliers"] == 0
    body = [w for name, w in opened.weights.items() if w.ndim > 1 and not name.startswith("head")]
    assert parts["integers"] == sum(-(-w.size // 2) for w in body)


def test_a_file_of_another_run_is_refused(runs, tmp_path):
    opened, wide = experiment.load(runs / "plain"), experiment.load(runs / "wide")
    export.export(wide, tmp_path / "wide")
    with pytest.raises(
        errors.CheckpointError, match="wide does not belong to .*plain: its model.width is 20 instead of 16"
    ):
        opened.with_file(tmp_path / "wide")
    shutil.copytree(runs / "plain", tmp_path / "plain")
    (tmp_path / "plain/labels.json").write_text(json.dumps({"names": ["class 0", "class 2"], "fields": ["text"]}))
    export.export(experiment.load(tmp_path / "plain"), tmp_path / "other")
    with pytest.raises(errors.CheckpointError, match="its labels is .*'class 2'.* instead of .*'class 1'"):
        opened.with_file(tmp_path / "other")
    artefact.write(tmp_path / "bare", opened.weights)
    with pytest.raises(errors.CheckpointError, match="bare does not record its tokenizer"):
        opened.with_file(tmp_path / "bare")


def test_an_adapter_over_integers_is_kept_in_evaluation_and_folded_into_the_file(runs, tmp_path):
    opened = experiment.load(runs / "adapted")
    query = "block_0/attention/query/kernel"
    node = opened.weights[query]
    assert isinstance(node, linear.LowRank) and isinstance(node.base, quantized_weight.Quantized)
    assert all(linear.is_node(w) == (len(w.shape) > 1) for w in opened.weights.values())
    export.export(opened, tmp_path / "int8")
    found = opened.with_file(tmp_path / "int8")
    folded = found.weights[query]
    assert isinstance(folded, quantized_weight.Quantized) and folded.block == 8
    assert np.all(np.abs(folded.dense() - node.dense()) <= np.repeat(folded.scales, 8, axis=0) / 2 * (1 + 1e-3))
    assert np.abs(node.dense() - node.base.dense()).max() > np.asarray(folded.scales, np.float32).max()
    for name, w in opened.weights.items():
        if name != query and linear.is_node(w):
            np.testing.assert_array_equal(found.weights[name].values, w.values)
    with pytest.raises(errors.ConfigError, match="adapted are quantized already, with block=8 instead of 64"):
        export.export(opened, tmp_path / "x", quantization=quantize.Quantize())
    again = experiment.arrays_of(runs / "adapted", "best")
    assert not any(map(linear.is_node, again.values()))


def test_embbert_in_400_kilobytes(tmp_path):
    """With a head of seven classes, scales and the header."""
    config = config_file.load(f"{ROOT}/configs/embbert_finetune.py:task=snips")
    model, section = assembly.make_model(config, 8192, outputs=7), config.model
    base = trees.flatten(jax.jit(model.init)(jax.random.key(0), model.example())["params"])
    info = {"model": section.to_dict(), "labels": [f"a label of twenty {i}" for i in range(7)], "tokenizer": "0" * 64}
    size = artefact.write(tmp_path / "file", quantize.Quantize().expand(base, {}, 0), rest="float16", info=info)
    parts = artefact.parts(tmp_path / "file")
    assert size <= 400_000 and sum(parts.values()) == size
    assert parts["integers"] == 352_640 and parts["heads"] == 128 * 7 + 2 * 2 * 7 + 2 * 7
