"""Models with random weights give the same logits in lwt and in transformers, in both directions."""

import json
import types

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from lwt import errors, files, registry, trees
from lwt.attention import linear
from lwt.export.torch import hf
from lwt.huggingface import configs, model_folder
from lwt.models import bert, embbert, seq2seq, vit
from lwt.runs import config_file

pytestmark = pytest.mark.usefixtures("compiled_once")
torch_timm = pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
torch = torch_timm.torch
transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `test`)")

TOLERANCE = 1e-5
V, D, HIDDEN = 40, 16, 24
ENCODER = dict(hidden_size=D, num_hidden_layers=2, num_attention_heads=2, intermediate_size=HIDDEN)
BERT = transformers.BertConfig(vocab_size=V, max_position_embeddings=10, num_labels=3, **ENCODER)
BERT_OF_3 = transformers.BertConfig(vocab_size=V, max_position_embeddings=10, type_vocab_size=3, **ENCODER)
VIT = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **ENCODER)
DEIT = transformers.DeiTConfig(image_size=8, patch_size=4, num_labels=3, **ENCODER)
MARIAN = transformers.MarianConfig(
    **{
        f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in (("ffn_dim", HIDDEN), ("layers", 2))
    },
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": V, "d_model": D},
    **{"activation_function": "swish", "scale_embedding": True, "pad_token_id": 0, "decoder_start_token_id": 2},
    **{"eos_token_id": 3, "max_position_embeddings": 512},
)
CASES = {  # class and config of transformers, and the fields of our model that depend on the data
    "bert": (transformers.BertModel, BERT, dict(vocabulary=V, head="none")),
    "bert, three segments": (transformers.BertModel, BERT_OF_3, dict(vocabulary=V, head="none")),
    "bert, classes": (transformers.BertForSequenceClassification, BERT, dict(vocabulary=V, head="classify", outputs=3)),
    "marian": (transformers.MarianMTModel, MARIAN, dict(vocabulary=V)),
    "vit": (transformers.ViTForImageClassification, VIT, dict(outputs=3)),
    "deit": (transformers.DeiTForImageClassification, DEIT, dict(outputs=3)),
}
IDS = np.array([[2, 9, 30, 4, 17, 4], [2, 7, 4, 0, 0, 0]])
SEGMENTS = np.array([[1, 1, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]])
IMAGES = np.random.default_rng(0).normal(0, 1, (2, 8, 8, 3)).astype(np.float32)


def randomised(model):
    """Gives all parameters of a model of transformers random values, also biases and scales."""
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # not Marian's positions
                parameter.copy_(torch.from_numpy(generator.normal(0, 0.3, parameter.shape).astype(np.float32)))
    return model.eval()


def theirs(model):
    """Logits or last states of a model of transformers; those of padding are 0."""
    ids, mask = torch.from_numpy(IDS), torch.from_numpy((SEGMENTS > 0).astype(np.int64))
    with torch.no_grad():
        if model.config.model_type in ("vit", "deit"):
            return model(pixel_values=torch.from_numpy(IMAGES).permute(0, 3, 1, 2)).logits.numpy()
        if isinstance(model, transformers.MarianMTModel):
            return (
                model(input_ids=ids, attention_mask=mask, decoder_input_ids=ids).logits.numpy()
                * (SEGMENTS > 0)[..., None]
            )
        two = model.config.type_vocab_size == 2
        kinds = torch.from_numpy(np.maximum(SEGMENTS - 1, 0) if two else SEGMENTS)
        found = model(input_ids=ids, attention_mask=mask, token_type_ids=kinds)
        return (
            found.logits.numpy() if "logits" in found else found.last_hidden_state.numpy() * (SEGMENTS > 0)[..., None]
        )


def ours(model, weights):
    """The same for a model of lwt."""
    positions, segments = np.arange(6)[None].repeat(2, 0), (SEGMENTS > 0).astype(np.int32)
    batch = {"ids": IDS, "segments": SEGMENTS}
    if isinstance(model, vit.ViT):
        batch = {"image": IMAGES}
    if isinstance(model, seq2seq.Seq2Seq):
        batch = {"source": IDS, "source_segments": segments, "source_positions": positions}
        batch |= {"inputs": IDS, "target_segments": segments, "target_positions": positions}
    found = jax.jit(model.apply)({"params": trees.unflatten(weights)}, jax.tree.map(jnp.asarray, batch))
    return np.asarray(found) * (segments[..., None] if found.ndim == 3 else 1)


def source(model, weights, labels=()):
    """A stand-in for an `experiment.Experiment` with the attributes that `hf.write` reads."""
    name = type(model).__name__.lower()
    config = ml_collections.ConfigDict({"model": {"name": name}, "task": {"name": "classify"}})
    return types.SimpleNamespace(config=config, model=model, weights=weights, labels=labels, tokenizer=None)


@pytest.mark.parametrize("case", CASES)
def test_equal_logits_both_ways(case, tmp_path):
    kind, config, more = CASES[case]
    other = randomised(kind(config))
    other.save_pretrained(tmp_path / "theirs")
    section, weights = model_folder.read(tmp_path / "theirs")
    section["attention"] = registry.ATTENTIONS.partial(section["attention"], key="", taken=())
    model = registry.MODELS.make(section | more, key="model")
    wanted = theirs(other)
    assert np.abs(wanted).max() > 0.5
    np.testing.assert_allclose(ours(model, weights), wanted, atol=TOLERANCE)
    hf.write(source(model, weights), tmp_path / "ours")
    back = kind.from_pretrained(tmp_path / "ours").eval()
    for name, array in other.state_dict().items():
        np.testing.assert_array_equal(back.state_dict()[name].numpy(), array.numpy(), err_msg=name)
    np.testing.assert_array_equal(theirs(back), wanted)


def test_a_run_comes_back_unchanged(tiny, untrained, tmp_path):
    run = untrained(tiny(), tmp_path / "run")
    hf.write(run, tmp_path / "hf")
    assert (tmp_path / "hf/tokenizer.model").read_bytes() == run.tokenizer.path.read_bytes()
    with pytest.raises(errors.ConfigError, match="hf already holds something"):
        hf.write(run, tmp_path / "hf")
    back = hf.convert(tmp_path / "hf", run, workdir=tmp_path / "back")
    assert back.weights.keys() == run.weights.keys() and back.tokenizer.fingerprint == run.tokenizer.fingerprint
    for name, w in run.weights.items():
        np.testing.assert_array_equal(back.weights[name], w, err_msg=name)
    with pytest.raises(errors.ConfigError, match="back already holds a run"):
        hf.convert(tmp_path / "hf", run, workdir=tmp_path / "back")
    transformers.BertModel(BERT).save_pretrained(tmp_path / "bert")
    with pytest.raises(errors.ConfigError, match="bert holds a 'bert'; --base=.*run is a 'seq2seq'"):
        hf.convert(tmp_path / "bert", run, workdir=tmp_path / "other")
    (tmp_path / "hf/model.safetensors").write_bytes(b"torn")
    with pytest.raises(errors.CheckpointError, match="hf/model.safetensors is damaged"):
        model_folder.read(tmp_path / "hf")
    with pytest.raises(errors.CheckpointError, match="none/config.json cannot be read: No such file"):
        model_folder.read(tmp_path / "none")


def test_a_body_gets_the_head_of_a_run(untrained, tmp_path):
    (tmp_path / "texts").mkdir()
    rows = [{"text": f"{'old new cold warm'.split()[i % 4]} {i}", "label": "no yes".split()[i % 2]} for i in range(40)]
    (tmp_path / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = f"configs/embbert_finetune.py:model=bert_tiny,vocabulary=80,smoke=true,data=folder:{tmp_path / 'texts'}"
    config = config_file.load(spec)
    config.model.update(width=8, hidden=8, layers=1, max_length=8)
    config.data.row_length = 8
    run = untrained(config, tmp_path / "run")
    sizes = BERT.to_dict() | {"vocab_size": run.tokenizer.vocabulary}
    other = randomised(transformers.BertForPreTraining(transformers.BertConfig.from_dict(sizes)))
    other.save_pretrained(tmp_path / "hf")
    with pytest.raises(errors.CheckpointError, match="missing: head/classifier/"):
        hf.convert(tmp_path / "hf", run, workdir=tmp_path / "without")
    narrow = r"head/classifier/kernel: \(8, 2\) instead of \(16, 2\)"  # the run's head under a wider body
    with pytest.raises(errors.CheckpointError, match=narrow):
        hf.convert(tmp_path / "hf", run, workdir=tmp_path / "narrow", new_head=True)
    assert not (tmp_path / "narrow").exists() and not (tmp_path / "without").exists()
    config.model.width = D
    wide = untrained(config, tmp_path / "wide")
    made = hf.convert(tmp_path / "hf", wide, workdir=tmp_path / "made", new_head=True)
    assert made.labels == ("no", "yes") and made.config.model.layers == 2
    np.testing.assert_array_equal(made.weights["head/classifier/kernel"], wide.weights["head/classifier/kernel"])
    states = made.model.clone(head="none", parent=None)
    np.testing.assert_allclose(ours(states, made.weights), theirs(other.bert), atol=TOLERANCE)


LIKE_HF = bert.Bert(V, embedding_norm=True, pooler=True)


@pytest.mark.parametrize(
    "name, model, message",
    [
        ("embbert", embbert.Embbert(V), "model.name='embbert' is not a model of Hugging Face.*bert, seq2seq, vit"),
        ("bert", bert.Bert(V), "model.embedding_norm=False must be True"),
        ("bert", LIKE_HF.clone(head="pretrain"), "model.head='pretrain' must be 'none' or 'classify'"),
        ("bert", LIKE_HF.clone(sizes={"block_0/mlp": 3}), "model.sizes={'block_0/mlp': 3}: .* have one size"),
        ("bert", LIKE_HF.clone(attention=linear.Attention), "model.attention must be 'softmax'"),
        ("seq2seq", seq2seq.Seq2Seq(V, pre_norm=True), "model.pre_norm=True must be False for 'marian'"),
        ("vit", vit.ViT(pool="mean"), "model.pool='mean' must be 'token'"),
    ],
)
def test_models_that_hugging_face_does_not_support(name, model, message):
    with pytest.raises(errors.ConfigError, match=message):
        configs.of_model(name, model)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "gpt2"}, "model_type='gpt2' must be one of bert, .*, marian, vit"),
        ({"d_model": None}, "has no key d_model"),
        ({"decoder_ffn_dim": 7}, "decoder_ffn_dim=7 must be 24"),
        ({"normalize_before": True}, "normalize_before=True must be False"),
        ({"activation_function": "relu6"}, "activation_function='relu6'; did you mean 'relu'"),
    ],
)
def test_models_that_lwt_does_not_support(change, message):
    config = {key: value for key, value in {**MARIAN.to_dict(), **change}.items() if value is not None}
    with pytest.raises(errors.CheckpointError, match=f"config.json.*{message}"):
        configs.to_section(config, where="config.json")


def test_marian_models_with_ids_of_their_own_need_their_tokenizer(tiny, untrained, tmp_path):
    run = untrained(tiny(), tmp_path / "run")
    hf.write(run, tmp_path / "hf")
    config = json.loads((tmp_path / "hf/config.json").read_text())
    (tmp_path / "hf/config.json").write_text(json.dumps(config | {"decoder_start_token_id": 39}))
    with pytest.raises(errors.CheckpointError, match="decoder_start_token_id=39 must be 2, as the tokenizer has it"):
        hf.convert(tmp_path / "hf", run, workdir=tmp_path / "back")


def test_classes_in_another_order_are_refused(tmp_path, caplog):
    def check(names):
        (tmp_path / "config.json").write_text(json.dumps({"id2label": names}))
        hf._check_labels(tmp_path, ("no", "yes"))

    for same in ({"0": "no", "1": "yes"}, {"0": "LABEL_0", "1": "LABEL_1"}, {}, None):
        check(same)
    assert caplog.text == ""
    check({"0": "bad", "1": "good"})
    assert "config.json names the classes ['bad', 'good']; the run names them ['no', 'yes']" in caplog.text
    with pytest.raises(errors.ConfigError, match="has the classes of --base in another order"):
        check({"0": "yes", "1": "no"})


def test_labels_come_from_the_run(tmp_path):
    model = vit.ViT(outputs=2, image_size=8, patch=4, width=8, layers=1, heads=1, hidden=8)
    config = configs.of_model("vit", model, labels=("no", "yes"), task="classify_images")
    found = transformers.ViTConfig.from_dict(config)
    assert found.id2label == {0: "no", 1: "yes"} and found.num_labels == 2
    files.write_json(tmp_path / "config.json", config)
    assert json.loads((tmp_path / "config.json").read_text()) == config
