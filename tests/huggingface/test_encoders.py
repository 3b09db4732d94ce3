"""Text encoders with random weights give the same states and logits in lwt and in transformers, in both directions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from lwt import trees
from lwt.export.torch import hf
from lwt.export.torch import peft as border
from lwt.runs import experiment
from tests.huggingface import small

pytestmark = pytest.mark.usefixtures("compiled_once")
torch_timm = pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
torch = torch_timm.torch
transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `test`)")

TOLERANCE = 2e-5
PAIRS = [("The cold house", "by the sea"), ("An old, warm wind!", "x"), ("naïve café £5", "An old house by 世界")]
COMMON = dict(
    vocab_size=None, hidden_size=16, num_attention_heads=2, num_hidden_layers=3, intermediate_size=24,
    max_position_embeddings=66, num_labels=3,
)  # fmt: skip
DISTILLED = dict(
    vocab_size=None, dim=16, n_heads=2, n_layers=3, hidden_dim=24, max_position_embeddings=66, num_labels=3
)
FAMILY = {  # model_type -> name of its classes, and config
    "bert": ("Bert", COMMON),
    "distilbert": ("DistilBert", DISTILLED),
    "roberta": ("Roberta", COMMON | dict(type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5)),
    "xlm-roberta": ("XLMRoberta", COMMON | dict(type_vocab_size=1, pad_token_id=1, hidden_act="gelu_new")),
    "electra": ("Electra", COMMON | dict(embedding_size=8)),
    "electra, wide": ("Electra", COMMON | dict(embedding_size=16)),
    "albert": ("Albert", COMMON | dict(embedding_size=8)),
}
TARGETS = r".*(query|q_lin|value|v_lin|lin1|lin2|ffn_output|intermediate\.dense)"
HEADS = {"Model": "none", "ForSequenceClassification": "classify"}
TOKENIZERS = {"Roberta": small.byte_pairs, "XLMRoberta": small.unigram}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path_factory.mktemp("cache")))


def made(name, head, folder, **more):
    """A model with random weights, written into `folder` with a tokenizer: ``(model, tokenizer)`` of transformers."""
    kind, config = FAMILY[name]
    tokenizer = TOKENIZERS.get(kind, small.word_piece)()
    config = getattr(transformers, f"{kind}Config")(**config | {"vocab_size": tokenizer.get_vocab_size()} | more)
    model = getattr(transformers, kind + head)(config).eval()
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            mean = float(parameter_name.lower().endswith("norm.weight"))
            parameter.copy_(torch.from_numpy(generator.normal(mean, 0.3, parameter.shape).astype(np.float32)))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    pad = "<pad>" if kind in TOKENIZERS else "[PAD]"
    return model, transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token=pad)


def theirs(model, tokenizer, texts):
    """Logits, or last states with 0 in padding, of texts or pairs of different lengths."""
    sides = [list(side) for side in zip(*texts)] if isinstance(texts[0], tuple) else [texts]
    rows = tokenizer(*sides, padding=True, return_tensors="pt", return_token_type_ids=True)
    if "type_vocab_size" not in model.config.to_dict():
        rows.pop("token_type_ids")
    with torch.no_grad():
        found = model(**rows)
    mask = rows["attention_mask"][..., None]
    return (found.logits if "logits" in found else found.last_hidden_state * mask).numpy(), rows


def ours(run, rows):
    """The same of an opened run of lwt, for the same rows."""
    kinds = rows.get("token_type_ids", torch.zeros_like(rows["input_ids"]))
    segments = ((kinds + 1) * rows["attention_mask"]).numpy()
    batch = {"ids": jnp.asarray(rows["input_ids"].numpy()), "segments": jnp.asarray(segments)}
    found = np.asarray(jax.jit(run.model.apply)({"params": trees.unflatten(run.weights)}, batch))
    return found * (segments > 0)[..., None] if found.ndim == 3 else found


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", FAMILY)
def test_equal_both_ways(name, head, tmp_path):
    model, tokenizer = made(name, head, tmp_path / "theirs")
    run = experiment.load(f"hf:{tmp_path}/theirs")
    assert run.model.head == HEADS[head]
    for texts in (PAIRS, [first for first, _ in PAIRS]):
        wanted, rows = theirs(model, tokenizer, texts)
        assert np.abs(wanted).max() > 0.5
        np.testing.assert_allclose(ours(run, rows), wanted, atol=TOLERANCE)
    batch = next(iter(run.data.batches(run.data.alone(texts))))
    found = batch["ids"][np.argsort(batch["example"][:3]), : rows["input_ids"].shape[1]]
    np.testing.assert_array_equal(found, rows["input_ids"].numpy())
    if run.labels:
        logits, _ = run.outputs(texts)
        np.testing.assert_allclose(logits, wanted, atol=TOLERANCE)

    hf.write(run, tmp_path / "ours")
    back, info = type(model).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert {n for n in info["missing_keys"] if "pooler" not in n} == set() == {*info["unexpected_keys"]}
    np.testing.assert_allclose(theirs(back.eval(), tokenizer, texts)[0], wanted, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "distilbert", "xlm-roberta", "electra", "albert"])
def test_an_adapter_of_peft_there_and_back(name, tmp_path):
    """PEFT's classifier on an encoder without a head: equal logits, as a run of lwt and written again."""
    peft = pytest.importorskip("peft", reason="needs peft (the extra `test`)")
    _, tokenizer = made(name, "Model", tmp_path / "base")
    given = peft.LoraConfig(
        task_type="SEQ_CLS", r=2, lora_alpha=4, target_modules=TARGETS,
        modules_to_save=["classifier", *(["pre_classifier"] if name == "distilbert" else [])],
    )  # fmt: skip

    def base():
        cls = getattr(transformers, f"{FAMILY[name][0]}ForSequenceClassification")
        return cls.from_pretrained(tmp_path / "base", num_labels=3)

    adapted = peft.get_peft_model(base(), given).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.normal_(0, 0.3)
    adapted.save_pretrained(tmp_path / "adapter")
    wanted, rows = theirs(adapted, tokenizer, PAIRS)
    assert np.abs(wanted - wanted[0]).max() > 0.1
    encoder = experiment.load(f"hf:{tmp_path}/base")
    run = border.convert(tmp_path / "adapter", encoder, workdir=tmp_path / "run", classes=("a", "b", "c"))
    assert run.labels == ("a", "b", "c")
    np.testing.assert_allclose(ours(run, rows), wanted, atol=1e-5)
    border.write(run, tmp_path / "again")
    again = peft.PeftModel.from_pretrained(base(), str(tmp_path / "again")).eval()
    np.testing.assert_allclose(theirs(again, tokenizer, PAIRS)[0], wanted, atol=1e-6)
    kept, back = (
        safetensors.numpy.load_file(tmp_path / f"{x}/adapter_model.safetensors") for x in ("adapter", "again")
    )
    assert kept.keys() == back.keys() and all((kept[key] == back[key]).all() for key in kept)
