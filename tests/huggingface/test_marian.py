"""Marian models with random weights: the same ids, logits and answers as transformers, trained and written back."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.export.torch import hf
from lwt.runs import config_file, experiment
from lwt.training import train
from tests.data import test_marian_tokenizer

pytestmark = pytest.mark.usefixtures("compiled_once")
torch_timm = pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
torch = torch_timm.torch
transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `test`)")

TEXTS = ["a cold old house", "the bold dog sleeps, Q", "a warm long day in the dark house", ">>deu<< old dog", "old"]
LENGTH = 40
KINDS = {  # tables, and the activation
    "shared": (False, dict(activation_function="swish")),
    "separate": (True, dict(activation_function="relu", share_encoder_decoder_embeddings=False)),
    "untied": (False, dict(activation_function="gelu", tie_word_embeddings=False, scale_embedding=False)),
}
SIZES = {
    **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in dict(ffn_dim=24, layers=2).items()},
    **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "d_model": 16, "max_position_embeddings": LENGTH},
}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """A folder with a random model, the model of transformers, its tokenizer, and the opened folder."""
    separate, settings = KINDS[request.param]
    folder = test_marian_tokenizer.written(tmp_path_factory.mktemp("hf") / request.param, separate=separate)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    rows = len(json.loads((folder / "vocab.json").read_text()))
    targets = len(json.loads((folder / "target_vocab.json").read_text())) if separate else rows
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    sizes = {"scale_embedding": True, "vocab_size": rows, "decoder_vocab_size": targets, **SIZES}
    ids = dict(pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=end, forced_eos_token_id=end)
    model = transformers.MarianMTModel(transformers.MarianConfig(**sizes | settings, **ids))
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:  # not the positions
                mean = float(name.endswith("norm.weight"))
                parameter.copy_(torch.from_numpy(generator.normal(mean, 0.4, parameter.shape).astype(np.float32)))
        bias = generator.normal(0, 0.3, model.final_logits_bias.shape).astype(np.float32)
        bias[0, end] += 2.5
        model.final_logits_bias.copy_(torch.from_numpy(bias))
    model.generation_config.update(num_beams=3, length_penalty=1.0, bad_words_ids=[[pad]])
    model.eval().save_pretrained(folder)
    return folder, model, tokenizer, experiment.load(f"hf:{folder}")


def logits(opened, given, *, model=None, weights=None):
    """Logits for the batch of `given` (transformers' ids), in the order of their ids."""
    source, target = (side.order for side in opened.tokenizer.sides)
    ours = [{theirs: i for i, theirs in enumerate(order.tolist())} for order in (source, target)]
    mask = given["attention_mask"].numpy()
    find = [np.vectorize(ids.get) for ids in ours]
    inputs = given["decoder_input_ids"].numpy()
    batch = {
        **{"source": np.where(mask > 0, find[0](given["input_ids"].numpy()), 0), "source_segments": mask},
        **{"inputs": find[1](inputs), "target_segments": np.ones_like(inputs)},
    }
    for side in ("source", "target"):
        shape = batch[f"{side}_segments"].shape
        batch[f"{side}_positions"] = np.broadcast_to(np.arange(shape[1]), shape)
    found = jax.jit(opened.model.apply)({"params": trees.unflatten(opened.weights)}, jax.tree.map(jnp.asarray, batch))
    return np.asarray(found)[..., [ours[1][i] for i in range(len(target) - 1)]]


def batch_of(tokenizer, model):
    given = tokenizer(TEXTS, return_tensors="pt", padding=True)
    generator = np.random.default_rng(1)
    inputs = generator.integers(0, model.config.decoder_vocab_size, (len(TEXTS), 6))
    inputs[:, 0] = model.config.pad_token_id
    return {**given, "decoder_input_ids": torch.from_numpy(inputs)}


def test_ids_and_logits(pair):
    folder, model, tokenizer, opened = pair
    order = opened.tokenizer.sides[0].order
    for text, theirs in zip(TEXTS, tokenizer(TEXTS)["input_ids"], strict=True):
        assert [*order[opened.tokenizer.encode([text])[0]], model.config.eos_token_id] == theirs
    given = batch_of(tokenizer, model)
    with torch.no_grad():
        wanted = model(**given).logits.numpy()
    assert np.abs(wanted).max() > 1
    np.testing.assert_allclose(logits(opened, given), wanted, atol=1e-5)
    assert (opened.config.model.source_vocabulary > 0) == (folder.name != "shared")
    assert opened.config.model.tied_output == (folder.name != "untied")


def test_answers(pair):
    folder, model, tokenizer, opened = pair
    beams, penalty = {"shared": (1, 1.0), "separate": (1, 1.0), "untied": (4, 0.5)}[folder.name]
    given = tokenizer(TEXTS, return_tensors="pt", padding=True)
    found = model.generate(**given, num_beams=beams, length_penalty=penalty, max_new_tokens=LENGTH)
    wanted = tokenizer.batch_decode(found, skip_special_tokens=True)
    again = experiment.load(opened.workdir, decoding={"beams": beams, "length_penalty": penalty})
    assert again.predict(TEXTS) == wanted
    assert len(set(wanted)) > 1


def test_the_way_back(pair, tmp_path):
    """Weights that are written for transformers give the same logits there, and come back."""
    folder, _, tokenizer, opened = pair
    tuned = tuned_by_lora(folder, tmp_path, opened) if folder.name == "shared" else opened
    hf.write(tuned, tmp_path / "back")
    back = transformers.MarianMTModel.from_pretrained(tmp_path / "back").eval()
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path / "back")
    assert theirs(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"]
    given = batch_of(theirs, back)
    with torch.no_grad():
        wanted = back(**given).logits.numpy()
    np.testing.assert_allclose(logits(tuned, given), wanted, atol=1e-5)
    again = experiment.load(f"hf:{tmp_path}/back")
    assert not trees.differences(again.weights, tuned.weights)
    for name, w in tuned.weights.items():
        np.testing.assert_allclose(again.weights[name], w, atol=1e-6, err_msg=name)


def tuned_by_lora(folder, tmp_path, opened):
    """The folder's model after two steps of LoRA."""
    (tmp_path / "pairs").mkdir()
    texts = test_marian_tokenizer.TEXTS
    for split in ("train", "validation", "test"):
        rows = [{"a": a, "b": b} for a, b in zip(texts["source"], texts["target"], strict=True)]
        (tmp_path / f"pairs/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = f"base=hf:{folder},data=folder:{tmp_path}/pairs,source=a,target=b,method=lora,rank=2,rate=0.01"
    config = config_file.load(f"configs/translation.py:{arguments},precision=float32,length=48,smoke=true")
    train.run(config, str(tmp_path / "run"))
    tuned = experiment.load(tmp_path / "run")
    moved = {
        name for name, w in tuned.weights.items() if np.abs(np.asarray(w) - np.asarray(opened.weights[name])).max() > 0
    }
    assert moved and all(name.endswith("kernel") for name in moved)
    return tuned
