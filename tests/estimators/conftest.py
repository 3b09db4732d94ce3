"""A small encoder to start from, and texts whose words tell their label."""

import json

import pytest

from lwt.training import train
from tests.configs import smoke

WORDS = {"billing": "the invoice is wrong", "delivery": "the parcel is late"}


@pytest.fixture(scope="session")
def texts():
    """``(texts, labels)``, 40 of them."""
    labels = [*WORDS] * 20
    return [f"{WORDS[label]} {i}" for i, label in enumerate(labels)], labels


@pytest.fixture(scope="session")
def base(texts, tmp_path_factory):
    """A BERT that took two steps, and so knows little more than the words of the texts."""
    folder = tmp_path_factory.mktemp("base")
    rows = [{"text": text, "label": label} for text, label in zip(*texts, strict=True)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train.run(smoke.encoder(f"embbert_finetune.py:model=bert_2mb,data=folder:{folder}"), str(folder / "run"))
    return str(folder / "run")
