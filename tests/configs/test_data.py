"""The configs open the real data that they name."""

import os
import pathlib

import pytest

from configs import embbert_pretrain
from lwt.data import corpus, sources
from lwt.runs import config_file

ROOT = pathlib.Path(__file__).parents[2]
REAL = pytest.mark.skipif(not os.environ.get("LWT_DATA"), reason="LWT_DATA, the folder of real data, is not set")


@REAL
@pytest.mark.parametrize("spec", ["summarization.py", "translation.py:data=multi30k"])
def test_pairs_open(spec, monkeypatch):
    monkeypatch.chdir(ROOT)
    section = config_file.load(f"configs/{spec}").data
    for part in ("train", "validation", "test"):
        options = dict(fields=section.fields, max_malformed=section.max_malformed)
        assert len(sources.load(section[part], split=part, **options)) > 500


@REAL
@pytest.mark.parametrize("texts", embbert_pretrain.TEXTS)
def test_texts_of_many_sets_open_together(texts, monkeypatch):
    monkeypatch.chdir(ROOT)
    section = config_file.load(f"configs/embbert_pretrain.py:data={texts}").data
    train, validation = corpus.load(section.train), corpus.load(section.validation, split="validation")
    assert len(train.parts) == len(validation.parts) == len(embbert_pretrain.TEXTS[texts].split("+"))
    assert len(train) > 100_000 and len(validation) > 10_000
