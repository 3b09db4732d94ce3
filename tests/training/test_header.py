"""The header of a run: counts that another part of the code computes, too."""

import re

import pytest

from lwt import trees
from lwt.runs import experiment
from lwt.training import build, train


def test_it_says_what_is_trained_on_what_and_for_how_long(tiny, tmp_path):
    base = f"{tmp_path}/base"
    train.run(tiny({"steps": 2, "eval_every": 2, "save_every": 2}), base)
    lora = {"reparam": {"name": "lora", "rank": 2}, "optimizer.trainable": ("adapter/.*",), "init_from": base}
    weights = experiment.load(base).weights
    run = build.build(tiny({**lora, "epochs": 2.0}), f"{tmp_path}/lora", base=weights)
    model, data, length, device = run.header
    total, trained = (int(text.replace(",", "")) for text in re.findall(r"([\d,]+) (?:parameters|of them)", model))
    assert model.startswith("model   seq2seq with lora: ") and total - trained == trees.count(weights), model
    assert data.startswith("data    train: generated:arithmetic") and re.search(r"\d+ records to evaluate on", data)
    epochs = re.fullmatch(rf"length  {run.steps} steps of 16 rows of up to 32 tokens, ([\d.]+) epochs", length)
    assert float(epochs[1]) == pytest.approx(2, abs=0.2), length  # rounded to a whole step
    assert device.startswith("device  ")


def test_a_run_shows_it_before_it_compiles(tiny, tmp_path, capsys):
    train.run(tiny({"steps": 2, "log_every": 1, "eval_every": 2, "save_every": 2}), str(tmp_path))
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[-9:] == ["model", "data", "length", "device", "folder", "compiling ...", "1/2", "2/2", "2/2"]
