"""The study of amounts of pairs: its configs, and runs with their page."""

import json
import re

import pytest

from studies.translation import amounts

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_runs_differ_in_pairs_and_epochs_only():
    assert [entry.name for entry in amounts.entries(seeds=2)] == [
        f"{amount}-seed{seed}" for seed in (0, 1) for amount in ("all", "quarter", "quarter-longer")
    ]
    configs = list(map(amounts.config_of, amounts.entries(seeds=1)))
    told = [(config.data.max_train_records, config.epochs) for config in configs]
    assert told == [(29_000, 6), (7_250, 6), (7_250, 24)]
    assert len({pairs * epochs for pairs, epochs in (told[0], told[2])}) == 1, "the quarter trains for as many steps"
    for config in configs:
        config.data.max_train_records, config.epochs = 0, 0.0
    assert configs[0].to_dict() == configs[1].to_dict() == configs[2].to_dict()


def test_runs_and_the_page(tmp_path, monkeypatch):
    folder, workdir = tmp_path / "data" / "multi30k_de_en", str(tmp_path / "runs")
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("validation", 4), ("test2016_flickr", 6)):
        texts = [" ".join(["hund", "katze"][: 1 + i % 2] * (1 + i % 5)) for i in range(count)]
        rows = [{"de": text, "en": text.replace("hund", "dog")} for text in texts]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("LWT_DATA", str(folder.parent))
    monkeypatch.setattr(amounts, "MODEL", {"encoder_layers": 1, "decoder_layers": 1, "width": 32})
    records = {entry.name: amounts.run(entry, workdir) for entry in amounts.entries(seeds=1, smoke=True)[:2]}
    first, second = records.values()
    assert first["pairs"] == 200 and first["checkpoint"] in (1, 2) and first["validation"] > 0
    first |= {"pairs": 29_000, "validation": 1.5, "figures": {"loss": 1.25, "bleu": 30.0, "data": "d"}}
    second["arguments"]["amount"] = "quarter-longer"
    amounts.write(tmp_path / "out", records, workdir=workdir, missing=["another"], command_line="c")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page and (tmp_path / "out/loss.png").exists()
    assert re.search(r"^\| 29,000 \| 0 \| 2 \| 1.500 \(n=1\) \| 1.250 \(n=1\) \| 30.00 \(n=1\) \|$", page, re.MULTILINE)
    rows = json.loads((tmp_path / "out/results.json").read_text())
    assert {name for row in rows for name in row["values"]} == {"validation/loss", "loss", "bleu"}
