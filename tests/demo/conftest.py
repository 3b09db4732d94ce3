"""An untrained translator and classifier, and adapters on the classifier."""

import json

import jax
import numpy as np
import pytest

from lwt.data import tokenizer
from lwt.export import bundle
from lwt.layers import linear
from lwt.reparam import adapters, compose
from lwt.runs import config_file, experiment
from tests.configs import smoke

WORDS = "cold old bold warm long dark young slow great small".split()


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled_once):
    pass


@pytest.fixture(scope="session")
def translator(tiny, untrained, tmp_path_factory):
    """The bundle of a run on arithmetic prompts, which rarely produces eos."""
    folder = tmp_path_factory.mktemp("translator")
    run = untrained(tiny(), folder / "run")
    table = run.weights["embed/embedding"].at[tokenizer.EOS].set(0)
    bundle.write(run.with_weights(run.weights | {"embed/embedding": table}, name="", step=0), folder / "bundle")
    return experiment.load(str(folder / "bundle"))


@pytest.fixture(scope="session")
def classifier(untrained, tmp_path_factory):
    """A BERT of two classes, whose rows have up to 48 tokens."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [
        {"text": f"the {w} year {i} was {w}er", "label": "even" if i % 2 else "odd"} for i, w in enumerate(WORDS * 9)
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = smoke.encoder(f"embbert_finetune.py:model=bert_2mb,data=folder:{folder}")
    config.data.row_length = 48
    return untrained(config, tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="session")
def photographer(untrained, tmp_path_factory):
    """A ViT of two classes of images of 8 × 8 pixels."""
    folder = tmp_path_factory.mktemp("photos")
    for split, count in (("train", 20), ("test", 4)):
        image = np.random.default_rng(count).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
        np.savez(folder / f"{split}.npz", image=image, label=np.arange(count) % 2)
    config = config_file.load(f"{smoke.ROOT}/configs/vit.py:data=folder:{folder},smoke=true")
    return untrained(config, tmp_path_factory.mktemp("photographer"))


@pytest.fixture(scope="session")
def adapter():
    """``adapter(run, folder, **reparam) -> folder`` writes an adapter with large changes, as a run does."""

    def adapter(run, folder, **section):
        base, reparam = linear.merge(run.weights), compose.build(section)
        generator = np.random.default_rng(1)
        leaves = {
            name: leaf + generator.normal(0, 0.3, leaf.shape).astype(leaf.dtype)
            for name, leaf in reparam.init(jax.random.key(0), base).items()
        }
        about = dict(reparam_config=section, base_fingerprint=adapters.fingerprint(base), step=7)
        adapters.save(folder / "adapter", leaves, **about)
        return folder

    return adapter


@pytest.fixture(scope="session")
def adapted(classifier, adapter, tmp_path_factory):
    """``{name: workdir}`` of two adapters on the classifier, of different kinds and ranks."""
    folder = tmp_path_factory.mktemp("adapters")
    return {
        "lora": str(adapter(classifier, folder / "lora", name="lora", rank=2)),
        "dora": str(adapter(classifier, folder / "dora", name="dora", rank=4)),
    }
