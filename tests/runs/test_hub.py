"""Models of Hugging Face as bundles: imported once, refused by name, and a base of runs like any other."""

import json
import logging
import re
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from lwt import errors, trees
from lwt.reparam import compose
from lwt.runs import assembly, bases, config_file, experiment, hub
from tests.configs import smoke
from tests.huggingface import small

pytestmark = pytest.mark.usefixtures("compiled_once")
LABELS = ("no", "yes", "maybe")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path_factory.mktemp("cache")))


def test_an_encoder_gives_vectors_and_no_answers(tmp_path):
    model, weights = small.write(tmp_path / "bert")
    found = experiment.load(f"hf:{tmp_path}/bert")
    assert found.workdir == hub.folder(f"hf:{tmp_path}/bert") and found.model.pool == "first"
    for name, w in weights.items():
        np.testing.assert_array_equal(found.weights[name], w, err_msg=name)
    texts = ["An old house", "the sea"]
    batch = jax.tree.map(jnp.asarray, next(iter(found.data.batches(found.data.alone(texts)))))
    states = model.apply({"params": trees.unflatten(weights)}, batch)
    np.testing.assert_allclose(found.embed(texts), states[:2, 0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.embed(texts, normalize=True), axis=1), 1, atol=1e-5)
    assert found.embed([]).shape == (0, 16)
    with pytest.raises(
        errors.ConfigError, match="gives no answers to texts; the model has no classifier: fine-tune it"
    ):
        found.predict(texts)


def test_a_classifier_predicts(tmp_path):
    small.write(tmp_path / "a", "roberta", head="classify", labels=LABELS)
    found = experiment.load(f"hf:{tmp_path}/a")
    assert found.labels == LABELS and {*found.predict(small.TEXTS)} <= {*LABELS}
    config = json.loads((tmp_path / "a/config.json").read_text()) | {"problem_type": "multi_label_classification"}
    (tmp_path / "a/config.json").write_text(json.dumps(config))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/test.csv").write_text("text,label\nthe sea,no\nan old house,maybe\n")
    assert found.report(data=f"folder:{tmp_path}/texts@test")["records"] == 2
    with pytest.raises(errors.DataError, match="has no data of its own; name a set, such as --data=folder:"):
        found.report()
    several = experiment.load(f"hf:{tmp_path}/a").predict(small.TEXTS)
    assert {label for answer in several for label in answer.split("|")} <= {*LABELS, ""}
    small.write(tmp_path / "b", head="classify", labels=("x",), task="regress")
    assert np.isfinite([*map(float, experiment.load(f"hf:{tmp_path}/b").predict(small.TEXTS))]).all()


def test_a_model_is_imported_again_when_its_files_change(tmp_path):
    small.write(tmp_path / "bert")
    first = hub.folder(f"hf:{tmp_path}/bert")
    assert hub.folder(f"hf:{tmp_path}/bert") == first and hub.folder("runs/mt") == "runs/mt"
    small.write(tmp_path / "bert", seed=1)
    assert hub.folder(f"hf:{tmp_path}/bert") != first


@pytest.mark.parametrize("kind", ["bert", "roberta", "electra"])
def test_a_head_for_tokens_is_left_out(tmp_path, kind, caplog):
    caplog.set_level(logging.INFO)
    _, weights = small.write(tmp_path / "ner", kind, architectures=["ForTokenClassification"])
    arrays = safetensors.numpy.load_file(tmp_path / "ner/model.safetensors")
    arrays = {f"{kind}.{name}": array for name, array in arrays.items()}
    arrays |= {"classifier.weight": np.ones((5, 16), np.float32), "classifier.bias": np.ones(5, np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "ner/model.safetensors")
    found = experiment.load(f"hf:{tmp_path}/ner")
    assert {*found.weights} >= {name for name in weights if "pooler" not in name}
    assert re.search("left out: (head/)?classifier[./]bias, (head/)?classifier", caplog.text)


def test_more_rows_than_the_tokenizer_has_ids(tmp_path):
    _, weights = small.write(tmp_path / "bert", vocab_size=128)
    arrays = safetensors.numpy.load_file(tmp_path / "bert/model.safetensors")
    arrays["embeddings.word_embeddings.weight"] = np.pad(weights["embed/token"], ((0, 8), (0, 0)))
    safetensors.numpy.save_file(arrays, tmp_path / "bert/model.safetensors")
    found = experiment.load(f"hf:{tmp_path}/bert")
    assert found.model.vocabulary == len(weights["embed/token"]) + 8 > found.tokenizer.pieces
    arrays["embeddings.word_embeddings.weight"] = weights["embed/token"][:-1]
    safetensors.numpy.save_file(arrays, tmp_path / "bert/model.safetensors")
    with pytest.raises(errors.CheckpointError, match="rows, and tokenizer.json"):
        hub.folder(f"hf:{tmp_path}/bert")


def test_what_sentence_transformers_says_is_kept(tmp_path):
    small.write(tmp_path / "m")
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    listed = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]
    (tmp_path / "m/modules.json").write_text(json.dumps(listed))
    (tmp_path / "m/1_Pooling").mkdir()
    (tmp_path / "m/1_Pooling/config.json").write_text(
        '{"word_embedding_dimension": 16, "pooling_mode_mean_tokens": true}'
    )
    (tmp_path / "m/sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": false}')
    found = experiment.load(f"hf:{tmp_path}/m")
    assert (found.model.pool, found.model.normalize, found.config.data.row_length) == ("mean", True, 24)
    np.testing.assert_allclose(np.linalg.norm(found.embed(["the sea"]), axis=1), 1, atol=1e-5)
    assert np.linalg.norm(found.embed(["the sea"], normalize=False)) > 1.1


def test_a_name_is_downloaded_where_there_is_a_network(tmp_path, monkeypatch):
    small.write(tmp_path / "snapshot")
    asked = []

    def snapshot_download(name, *, allow_patterns):
        asked.append(name)
        if name == "nobody/nothing":
            raise OSError("no such repository\nand more")
        return str(tmp_path / "snapshot")

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(snapshot_download=snapshot_download))
    assert experiment.load("hf:somebody/small").model.width == 16 and asked == ["somebody/small"]
    with pytest.raises(errors.ConfigError, match=r"hf:nobody/nothing is not a folder .* \(no such repository\)"):
        hub.folder("hf:nobody/nothing")
    with pytest.raises(errors.ConfigError, match="hf:./nowhere: there is no such folder"):
        hub.folder("hf:./nowhere")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(errors.ConfigError, match=r"pip install 'lwt\[hf\]'"):
        hub.folder("hf:somebody/else")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    rows = [{"text": f"{small.TEXTS[i % 12]} {i}", "label": LABELS[i % 2]} for i in range(60)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_model_is_the_base_of_a_run(labelled, tmp_path):
    """LoRA, a step more, and the run answers; its base is found by its name."""
    small.write(tmp_path / "bert")
    arguments = f"base=hf:{tmp_path}/bert,data=folder:{labelled},method=lora,rank=2,length=16,smoke=true"
    assert hub.named_in("base=hf:a,teacher=hf:b+runs/c+hf:d/e") == ["hf:a", "hf:b", "hf:d/e"]
    config = config_file.load(f"{smoke.ROOT}/configs/finetune.py:{arguments}")
    assert config.init_from == f"hf:{tmp_path}/bert" and config.optimizer.learning_rate == pytest.approx(0.4 / 16)
    with config.unlocked():
        smoke.cycle(config, tmp_path / "run")
    found = experiment.load(tmp_path / "run", checkpoint="last")
    base = experiment.load(f"hf:{tmp_path}/bert")
    assert found.tokenizer.fingerprint == base.tokenizer.fingerprint and {*found.labels} == {*LABELS[:2]}
    assert bases.find(config.init_from, tmp_path / "run") == base.workdir
    kernel = "block_0/self_attention/query/kernel"
    assert (found.weights[kernel] != base.weights[kernel]).any() and len(found.predict(small.TEXTS)) == 12
    assert (found.base()[kernel] == base.weights[kernel]).all()
    small.write(tmp_path / "bert", seed=1)
    with pytest.raises(errors.CheckpointError, match="has the fingerprint"):
        experiment.load(tmp_path / "run", checkpoint="last")


def test_a_pooler_is_made_or_left_out(labelled, tmp_path):
    small.write(tmp_path / "bert")
    small.write(tmp_path / "roberta", "roberta")
    for base, pool, wanted in (("bert", "mean", False), ("roberta", "first", True), ("roberta", "", False)):
        arguments = f"base=hf:{tmp_path}/{base},data=folder:{labelled},method=head,pool={pool},length=16,smoke=true"
        config = config_file.load(f"{smoke.ROOT}/configs/finetune.py:{arguments}")
        given = experiment.load(config.init_from)
        model = assembly.make_model(config, given.data.vocabulary, outputs=2, frame=given.data.frame)
        none = compose.build({"name": "none"})
        trained, frozen = assembly.initial_params(config, model, reparam=none, base=given.weights)
        assert ("base/pooler/kernel" in trained | frozen) == wanted and model.pool == (pool or "mean")
