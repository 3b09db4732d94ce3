"""The study of layers and heads: its runs, a search with a run and timings, and the page."""

import json

import pytest

from lwt.report import results
from studies.lighter import shapes

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_every_shape_has_one_search_and_its_seeds():
    found = shapes.entries(seeds=2)
    names = [entry.name for entry in found]
    assert len(set(names)) == len(names) == 2 * (9 + 2 * 9 + 1)
    assert shapes.shapes("classification") == [(2, 2), (4, 2), (6, 2), (8, 2), (12, 2), (4, 1), (4, 4), (4, 8), (4, 16)]
    assert {"search-translation-layers4-heads16", "classification-layers12-heads2-seed1", "times-translation"} < {
        *names
    }


def test_the_config_of_a_shape():
    known = {entry.name: entry for entry in shapes.entries(seeds=2)}
    deep = shapes.config_of(known["translation-layers8-heads4-seed1"])
    assert (deep.model.encoder_layers, deep.model.decoder_layers, deep.model.heads, deep.seed) == (8, 8, 4, 1)
    assert deep.steps == 1_000 and shapes.config_of(known["search-translation-layers8-heads4"]).steps == 500
    heads = shapes.config_of(known["classification-layers4-heads16-seed0"])
    assert (heads.model.layers, heads.model.heads, heads.epochs) == (4, 16, 6.0)
    assert (heads.model.norm_place, deep.model.get("norm_place")) == ("inline", None)
    assert shapes.config_of(known["search-classification-layers4-heads16"]).epochs == 3.0


def test_a_search_a_run_and_the_page(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "emotion"
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("validation", 6), ("test", 6)):
        rows = [{"text": ["glad day", "sad night"][i % 2], "label": ["joy", "sadness"][i % 2]} for i in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("LWT_DATA", str(folder.parent))
    monkeypatch.setattr(shapes, "shapes", lambda task: [(2, 2), (4, 2)] if task == "classification" else [])
    monkeypatch.setattr(shapes, "BATCH", 4)
    known = {entry.name: entry for entry in shapes.entries(seeds=1, smoke=True)}
    workdir, records = str(tmp_path / "runs"), {}
    for name in known:
        if "translation" not in name:
            records[name] = shapes.run(known[name], workdir, known=known)
    small, large = (records[f"classification-layers{n}-heads2-seed0"] for n in (2, 4))
    search = records["search-classification-layers2-heads2"]
    assert [trial["rate"] for trial in search["tried"]] == list(shapes.FIRST["classification"])
    assert small["rate"] == search["rate"] and small["config"].endswith(f"rate={search['rate']:g}")
    layer = (large["parameters"] - small["parameters"]) / 2
    assert layer == int(layer) > 0 and large["memory"] > small["memory"]
    small["figures"]["accuracy"], large["figures"]["accuracy"] = 0.5, 0.75
    names = shapes.write(tmp_path / "out", records, missing=["another"], command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page and "classification_layers.png" in page
    assert "The standard error of an accuracy of 62.5 % on 6 texts is 19.8 points." in page
    alone, together = records["times-classification"]["times"]["classification-layers4-heads2-seed0"]
    cells = f"| {large['memory'] / 1e6:.1f} | {1000 * alone:.2f} | {4 / together:,.0f} |"
    assert f"| 4 | 2 | {large['parameters']:,} | 75.00 (n=1) {cells}" in page
    assert {row["metric"]: row["value"] for row in results.load(tmp_path / "out/results.json")}["accuracy"] == 0.75
