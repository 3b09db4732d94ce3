"""A quantized file gives the logits, figures and answers of the quantized weights in memory, to the bit."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.export import quantize as export
from lwt.layers import linear, quantized_weight
from lwt.reparam.compression import quantize
from lwt.runs import assembly, config_file, experiment, integer_file
from lwt.training import train

ROOT = pathlib.Path(__file__).parents[2]


def config(folder, *, width=16):
    config = config_file.load(f"{ROOT}/configs/embbert_finetune.py:data=folder:{folder},vocabulary=120,smoke=true")
    config.model.update(width=width, reduced=4, layers=1, kernel_size=3, max_length=16)
    config.data.row_length, config.steps = 16, 1
    return config


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three text classifiers: plain, of another width, and with an adapter over quantized weights."""
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
        adapted.init_from = str(folder / "plain")
    adapted.optimizer.trainable, adapted.optimizer.learning_rate = ("adapter/.*",), 1.0
    train.run(adapted, folder / "adapted")
    return folder


def logits(source):
    batch = {"ids": jnp.array([[2, 9, 30, 4, 0, 0]]), "segments": jnp.array([[1, 1, 1, 1, 0, 0]])}
    return jax.jit(lambda w: source.model.apply({"params": trees.unflatten(w)}, batch))(source.weights)


@pytest.mark.parametrize("rest", ["float16", "float32"])
def test_the_file_equals_the_memory(runs, tmp_path, rest):
    source, path = experiment.load(runs / "plain"), tmp_path / "export/int8.safetensors"
    quantization = quantize.Quantize(block=8)
    written = export.export(source, path, quantization=quantization, rest=rest)
    assert written == path.stat().st_size == sum(integer_file.parts(path).values())
    stored = integer_file.as_stored(export.weights(source, quantization), rest=rest)
    memory, found = source.with_weights(stored, name="memory", step=1), source.with_file(path)
    np.testing.assert_array_equal(logits(found), logits(memory))
    assert np.abs(logits(found) - logits(source)).max() > 1e-6
    assert found.evaluate()[0] == memory.evaluate()[0]
    np.testing.assert_array_equal(found.evaluate()[2], memory.evaluate()[2])
    assert found.predict(["an old one"]) == memory.predict(["an old one"])
    figures = found.report()
    assert figures["weights"] == "int8.safetensors" and "weights" not in source.report()
    names = {file.stem.rpartition(" ")[2].rpartition("_")[2] for file in (runs / "plain/eval").glob("*.json")}
    assert "weights=int8.safetensors" in names


def test_the_file_records_what_it_holds(runs, tmp_path):
    source = experiment.load(runs / "plain")
    export.export(source, tmp_path / "int4", quantization=quantize.Quantize(format="int4"))
    info = integer_file.read_info(tmp_path / "int4")
    assert info["labels"] == ["class 0", "class 1"] and info["model"]["width"] == 16 and info["step"] == 1
    assert info["tokenizer"] == source.tokenizer.fingerprint and info["quantization"]["format"] == "int4"
    parts = integer_file.parts(tmp_path / "int4")
    kernel = 16 * 2 // 2 + 2 * 2 + 2 * 2  # integers, scales, bias
    assert parts["heads"] == kernel and parts["outliers"] == 0
    body = [w for name, w in source.weights.items() if w.ndim > 1 and not name.startswith("head")]
    assert parts["integers"] == sum(-(-w.size // 2) for w in body)


def test_a_file_of_another_run_is_refused(runs, tmp_path, monkeypatch):
    source, wide = experiment.load(runs / "plain"), experiment.load(runs / "wide")
    export.export(wide, tmp_path / "wide")
    with pytest.raises(
        errors.CheckpointError, match="wide does not belong to .*plain: its model.width is 20 instead of 16"
    ):
        source.with_file(tmp_path / "wide")
    other = experiment.load(runs / "plain")
    monkeypatch.setattr(other, "labels", ("class 0", "class 2"))
    export.export(other, tmp_path / "other")
    with pytest.raises(errors.CheckpointError, match="its labels is .*'class 2'.* instead of .*'class 1'"):
        source.with_file(tmp_path / "other")
    integer_file.write(tmp_path / "bare", source.weights)
    with pytest.raises(errors.CheckpointError, match="bare does not record its tokenizer"):
        source.with_file(tmp_path / "bare")


def test_an_adapter_over_integers_is_separate_in_evaluation_and_merged_in_the_file(runs, tmp_path):
    source = experiment.load(runs / "adapted")
    query = "block_0/attention/query/kernel"
    node = source.weights[query]
    assert isinstance(node, linear.LowRank) and isinstance(node.base, quantized_weight.Quantized)
    assert all(linear.is_node(w) == (len(w.shape) > 1) for w in source.weights.values())
    export.export(source, tmp_path / "int8")
    found = source.with_file(tmp_path / "int8")
    merged = found.weights[query]
    assert isinstance(merged, quantized_weight.Quantized) and merged.block == 8
    assert np.all(np.abs(merged.dense() - node.dense()) <= np.repeat(merged.scales, 8, axis=0) / 2 * (1 + 1e-3))
    assert np.abs(node.dense() - node.base.dense()).max() > np.asarray(merged.scales, np.float32).max()
    for name, w in source.weights.items():
        if name != query and linear.is_node(w):
            np.testing.assert_array_equal(found.weights[name].values, w.values)
    with pytest.raises(errors.ConfigError, match="adapted are already quantized, with block=8 instead of 64"):
        export.export(source, tmp_path / "x", quantization=quantize.Quantize())
    again = experiment.arrays_of(runs / "adapted", "best")
    assert not any(map(linear.is_node, again.values()))


def test_embbert_in_400_kilobytes(tmp_path):
    """With a head of seven classes, scales and the header."""
    config = config_file.load(f"{ROOT}/configs/embbert_finetune.py:task=snips")
    model, section = assembly.make_model(config, 8192, outputs=7), config.model
    base = trees.flatten(jax.jit(model.init)(jax.random.key(0), model.example())["params"])
    info = {"model": section.to_dict(), "labels": [f"a label of twenty {i}" for i in range(7)], "tokenizer": "0" * 64}
    size = integer_file.write(tmp_path / "file", quantize.Quantize().expand(base, {}, 0), rest="float16", info=info)
    parts = integer_file.parts(tmp_path / "file")
    assert size <= 400_000 and sum(parts.values()) == size
    assert parts["integers"] == 352_640 and parts["heads"] == 128 * 7 + 2 * 2 * 7 + 2 * 7
