"""``make quickstart`` runs both stages and leaves what it promises; here with two steps each."""

import json
import pathlib

import pytest

from lwt import quickstart
from lwt.runs import config_file

pytestmark = pytest.mark.usefixtures("compiled_once")
ROOT = pathlib.Path(__file__).parents[1]


def test_it_trains_adapts_evaluates_and_draws(tmp_path, monkeypatch, capsys):
    load = config_file.load

    def small(spec):
        config = load(f"{spec},smoke=true")
        with config.unlocked():
            config.model.update(encoder_layers=1, decoder_layers=1)
            config.data.max_eval_records = 8
            config.data.test = config.data.test.replace("size=600", "size=8")
        return config

    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.setattr(quickstart.config_file, "load", small)
    monkeypatch.chdir(tmp_path)
    quickstart.main()
    said, folder = capsys.readouterr().out, tmp_path / "runs/quickstart"
    assert "1/4" in said and "4/4" in said and "exact match on new tasks" in said
    for name in ("loss.png", "accuracy.png", "adapted/metrics.jsonl", "adapted/adapter/adapter.safetensors"):
        assert (folder / name).stat().st_size > 0, name
    assert json.loads((folder / "adapted/config.json").read_text())["reparam"]["name"] == "lora"
