"""The study of LoRA with approximate gradients: its runs, a small one of them, and the page of made-up records."""

import json

import pytest

from lwt import errors
from lwt.attention.parts import approximation_check
from lwt.layers import linear
from lwt.report import results
from lwt.runs import experiment
from studies.approximate_gradients import lora, lora_report

WORDS = "cold old bold warm long dark young slow great small".split()


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Folder of the study; beside it the texts of both tasks."""
    monkeypatch.setenv("LWT_DATA", str(tmp_path / "data"))
    rows = [{"text": f"{w} {WORDS[i % 7]}", "label": WORDS[i % 2]} for i, w in enumerate(WORDS * 6)]
    for task in ("emotion", "snips"):
        folder = tmp_path / "data" / task
        folder.mkdir(parents=True)
        for split, count in (("train", 48), ("validation", 9), ("test", 10)):
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:count]))
    return tmp_path / "runs"


def test_entries(runs):
    found = {entry.name: entry for entry in lora.entries(str(runs), seeds=2)}
    assert len(found) == 1 + 2 * len(lora.BOUNDS) * len(lora.METHODS)
    config, clipped = lora.config_of(found["bound2-degree3-seed1"]), {"norm": "clip", "bound": 2.0}
    assert config.model.attention.to_dict() == {"name": "approximate", "degree": 3} | clipped
    assert (config.seed, config.model.heads, config.init_from) == (1, 10, f"{runs}/base-bound2")
    exact = lora.config_of(found["bound2-exact-seed1"])
    assert exact.model.attention_dropout == config.model.attention_dropout == 0
    assert lora.config_of(found["base"]).reparam.name == "none"


def test_a_run(runs, monkeypatch):
    monkeypatch.setattr(lora, "BOUNDS", (3,))
    found = {entry.name: entry for entry in lora.entries(str(runs), seeds=1, smoke=True)}
    adapted = found["bound3-degree1-seed0"]
    with pytest.raises(errors.ConfigError, match="base-bound3 is missing: --only='.base.'"):
        lora.run(adapted, str(runs))
    lora.run(found["base"], str(runs))
    base = experiment.load(runs / "base-bound3")
    layers = approximation_check.check_model(
        base.model, linear.merge(base.weights), batch=lora.first_batch(base), warn=False
    )
    assert [one.largest for one in layers] == pytest.approx([3] * len(layers), rel=1e-4)
    record = lora.run(adapted, str(runs))
    assert record["steps"] == 2 and record["figures"]["records"] == 10
    assert (
        0 < record["logits"]["largest"] <= 3.001 and record["logits"]["error"] > approximation_check.TOLERANCE
    )  # e³ is no 1 + 3
    monkeypatch.setattr(lora, "measure", None)
    assert lora.run(adapted, str(runs)) == record  # it is left alone


def test_the_page(tmp_path):
    def record(bound, method, seed, accuracy, error):
        return {
            "arguments": {"bound": bound, "method": method, "seed": seed},
            "config": "configs/x.py",
            "figures": {"data": "folder:x@test", "accuracy": accuracy},
            "logits": {"largest": 2.0 * bound, "error": error},
            "seconds": 360.0,
            "hardware": "h",
        }

    runs = [(1, "exact", 0.9, 0.0), (1, "degree2", 0.895, 0.01), (16, "exact", 0.8, 0.0), (16, "degree2", 0.5, 0.75)]
    records = {str((run, seed)): record(*run[:2], seed, run[2] + seed / 100, run[3]) for run in runs for seed in (0, 1)}
    files = lora_report.write(tmp_path, records, missing=["another"], command_line="c")
    assert {path.name for path in tmp_path.iterdir()} == set(files)
    text = (tmp_path / "README.md").read_text()
    assert "- Degree 2 compared with exact gradients, in points: -0.50 at logit 1, -30.00 at logit 16." in text
    assert "| degree 2 | 90.00 ± 0.71 | 50.50 ± 0.71 | 1 % | 75 % ! |" in text
    assert "| exact | 90.50 ± 0.71 | 80.50 ± 0.71 | – | – |" in text and "Not in the figures: another." in text
    assert len(results.load(tmp_path / "results.json")) == 8 * 3
