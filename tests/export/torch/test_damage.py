"""Files of other programs that are damaged, or hold other types than they should, give one line that names the file."""

import json
import random
import types

import numpy as np
import pytest
import safetensors.numpy

from lwt import errors, files
from lwt.export.torch import hf, peft, peft_configs, timm_layouts
from lwt.huggingface import configs, model_folder
from lwt.models import bert, seq2seq, vit

WRONG = (None, "x", "", -1, 0, 3.5, 1e300, float("nan"), True, [], [1], {}, {"(": 1}, {"x": "y"})
BERT = bert.Bert(40, width=8, layers=1, heads=2, embedding="full", embedding_norm=True, pooler=True)
MODELS = {"bert": BERT, "seq2seq": seq2seq.Seq2Seq(40, width=8, pre_norm=False), "vit": vit.ViT(image_size=8, patch=4)}
ADAPTER = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "use_dora": False, "use_rslora": True}
ADAPTER |= {"rank_pattern": {"v_proj": 4}, "alpha_pattern": {"v_proj": 4.0}, "bias": "none", "fan_in_fan_out": False}
UNREAD = {"vocab_size"}  # the run that gives the data has its own


@pytest.mark.parametrize("name", MODELS)
def test_wrong_types_in_a_config_of_transformers(name):
    good = configs.of_model(name, MODELS[name])
    wanted = configs.to_section(good, where="config.json")
    found = configs.architecture(name, MODELS[name])
    for key in {*found.keys.values(), found.activation} - UNREAD:
        for value in WRONG:
            try:
                section = configs.to_section(good | {key: value}, where="config.json")
            except errors.CheckpointError as error:
                assert str(error).startswith("config.json: ") and key in str(error) and "\n" not in str(error)
            else:  # a share of 0 is as good as another
                changed = {ours for ours in wanted if section[ours] != wanted[ours]}
                assert changed <= {"dropout", "attention_dropout", "norm_epsilon", "scale_embedding"}, (key, value)
                assert value in (0, True), (key, value)


def test_wrong_types_in_a_config_of_peft():
    modules, ranks = {"x/kernel": "model.v_proj"}, {"x/kernel": 4}
    wanted = peft_configs.to_section(ADAPTER, modules, ranks=ranks, where="adapter.json")
    for key in ADAPTER:
        for value in WRONG:
            try:
                section = peft_configs.to_section(ADAPTER | {key: value}, modules, ranks=ranks, where="adapter.json")
            except errors.CheckpointError as error:
                assert str(error).startswith("adapter.json: ") and key in str(error) and "\n" not in str(error)
            else:  # what says nothing is the default
                legal = (("lora_alpha", 3.5), ("use_dora", True))
                assert not value or section == wanted or (key, value) in legal, (key, value)
    with pytest.raises(errors.CheckpointError, match="v_proj has rank 4; r and rank_pattern say 2"):
        peft_configs.to_section(ADAPTER | {"rank_pattern": {"v_proj": 2}}, modules, ranks=ranks, where="adapter.json")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"3", b"null", b"[" * 100_000, None])
def test_json_that_is_no_object(content, tmp_path):
    path = tmp_path / "config.json"
    path.mkdir() if content is None else path.write_bytes(content)
    for read in (files.load_json, lambda path: model_folder.read(path.parent)):
        with pytest.raises(errors.CheckpointError, match="config.json") as caught:
            read(path)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def arrays_of(model):
    """The arrays of a model that has only two kinds of weights, a table and a layer, by transformers' names."""
    del model
    return {
        "bert.embeddings.word_embeddings.weight": np.ones((40, 8), np.float32),
        "bert.encoder.layer.0.output.dense.weight": np.ones((8, 6), np.float32),
    }


def changed(arrays):
    """``(what, arrays)`` with one array of another shape or type."""
    for name, array in arrays.items():
        for shape in ((), (-1,), (1, *array.shape), (1, 1, 1, *array.shape)):
            yield f"{name} {shape}", arrays | {name: array.ravel()[0] if shape == () else array.reshape(shape)}
        yield f"{name} empty", arrays | {name: array[:0]}
        for kind in (np.int64, np.int8, np.uint8, bool):
            yield f"{name} is of type", arrays | {name: array.astype(kind)}
        yield f"{name} is not finite", arrays | {name: array * np.nan}
        yield f"{name} is not finite", arrays | {name: array * np.inf}


def test_arrays_of_wrong_shapes_and_types(tmp_path):
    """A wrong type is refused; a wrong shape is, or leaves an array that fits no model."""
    (tmp_path / hf.CONFIG).write_text(json.dumps(configs.of_model("bert", BERT)))
    good = arrays_of(BERT)
    for what, arrays in changed(good):
        safetensors.numpy.save_file({n: np.asarray(a, order="C") for n, a in arrays.items()}, tmp_path / hf.WEIGHTS)
        if "is " in what:
            with pytest.raises(errors.CheckpointError, match=f"{hf.WEIGHTS}: {what}"):
                model_folder.read(tmp_path)
        else:
            found = {name: array.shape for name, array in model_folder.read(tmp_path)[1].items()}
            assert found != {"embed/token": (40, 8), "block_0/mlp/fc2/kernel": (6, 8)}, what


def test_factors_of_wrong_shapes(tmp_path):
    key = f"{peft.PREFIX}encoder.layer.0.output.dense.lora_A.weight"
    (tmp_path / peft.CONFIG).write_text(json.dumps(ADAPTER))
    config = types.SimpleNamespace(model=types.SimpleNamespace(name="bert"))
    base = types.SimpleNamespace(config=config, model=BERT)
    for shape in ((), (8,), (1, 2, 3)):
        safetensors.numpy.save_file({key: np.zeros(shape, np.float32)}, tmp_path / peft.WEIGHTS)
        with pytest.raises(errors.CheckpointError, match="belongs to no linear layer or table"):
            peft.read(tmp_path, base)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_damaged_checkpoint_of_a_vit(suffix, tmp_path):
    """Files cut off, flipped and made up: an error, or the weights as they were if a bit is of no use."""
    arrays = {"head/bias": np.arange(6, dtype=np.float32), "head/kernel": np.ones((4, 6), np.float32)}
    path, generator = tmp_path / f"vit{suffix}", random.Random(0)
    np.savez(path, **arrays) if suffix == ".npz" else safetensors.numpy.save_file(arrays, path)
    content, refused = path.read_bytes(), 0
    for i in range(150):
        damaged = bytearray(content)
        if i % 3 == 0:
            damaged = damaged[: generator.randrange(len(damaged))]
        elif i % 3 == 1:
            damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        else:
            damaged = bytearray(generator.randbytes(generator.randrange(200)))
        path.write_bytes(damaged)
        try:
            found, _ = timm_layouts.read(path)
        except errors.CheckpointError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            refused += 1
        else:
            same = found.keys() == arrays.keys() and all((found[name] == arrays[name]).all() for name in arrays)
            assert same or suffix == ".safetensors"  # which has no checksums
    assert refused > 100


def test_an_npz_that_claims_a_terabyte(tmp_path):
    path = tmp_path / "vit.npz"
    np.savez(path, a=np.zeros(3, np.float32))
    header = b"'shape': (3,), "
    content = path.read_bytes()
    assert header in content
    path.write_bytes(content.replace(header, b"'shape': (1<<38"))
    with pytest.raises(errors.CheckpointError, match="vit.npz is damaged"):
        timm_layouts.read(path)
