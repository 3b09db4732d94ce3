"""The study of shared layers: its runs, a search, a run, what starts from it, and the page."""

import json
import os

import pytest

from lwt.report import results
from studies.vertical import sharing

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_every_model_has_one_search_and_its_seeds():
    names = [entry.name for entry in sharing.entries(seeds=2)]
    assert len(set(names)) == len(names) == 3 * len(sharing.TASKS) * len(sharing.MODELS)
    assert {"search-snips-shared", "emotion-half-seed0", "snips-relaxed-r2-seed1"} < {*names}


def test_models_differ_in_what_their_layers_share():
    known = {entry.name: entry for entry in sharing.entries(seeds=2)}
    whole, half, shared, relaxed = (
        sharing.config_of(known[f"snips-{name}-seed1"], workdir="W")
        for name in ("whole", "half", "shared", "relaxed-r2")
    )
    assert whole.epochs == sharing.EPOCHS and whole.reparam.name == "none"
    assert (half.model.layers, whole.model.layers) == (2, 4)
    assert shared.reparam.to_dict() == {"name": "share", "chunks": 2}
    assert relaxed.reparam.to_dict() == {
        "name": "vertical", "chunks": 2, "rank": 2, "mode": "lors", "start": "average"
    }  # fmt: skip
    assert relaxed.init_from == relaxed.task.teacher == os.path.join("W", "snips-whole-seed1")
    assert sharing.config_of(known["search-snips-relaxed-r2"], workdir="W").init_from.endswith("whole-seed0")
    assert sharing.config_of(known["search-snips-half"], workdir="W").epochs == sharing.EPOCHS / 2
    with half.unlocked(), shared.unlocked():
        half.model.layers, shared.reparam = 4, dict(name="none")
    assert half == shared == whole


def test_runs_and_the_page(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "snips"
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("validation", 8), ("test", 10)):
        rows = [{"text": f"{('play some', 'book a')[i % 2]} thing {i % 5}", "label": "pb"[i % 2]} for i in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("LWT_DATA", str(folder.parent))
    monkeypatch.setattr(sharing, "FIRST", sharing.FIRST[:1])
    known = {entry.name: entry for entry in sharing.entries(seeds=1, smoke=True)}
    workdir = str(tmp_path / "runs")
    records = {
        name: sharing.run(known[name], workdir, known=known)
        for name in ("search-snips-relaxed-r2", "snips-relaxed-r2-seed0", "snips-shared-seed0", "snips-whole-seed0")
    }
    stored = {name: record["parameters"] for name, record in records.items() if "seed" in name}
    assert stored["snips-shared-seed0"] < stored["snips-relaxed-r2-seed0"] < stored["snips-whole-seed0"]
    assert [trial["rate"] for trial in records["search-snips-relaxed-r2"]["tried"]] == list(sharing.FIRST)
    for name, accuracy in (("whole", 0.8), ("shared", 0.75), ("relaxed-r2", 0.9)):
        records[f"snips-{name}-seed0"]["figures"]["accuracy"] = accuracy
    written = sharing.write(tmp_path / "out", records, missing=["another"], command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(written)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page and "snips.png" in page and "emotion.png" not in page
    share = 100 * stored["snips-shared-seed0"] / stored["snips-whole-seed0"]
    assert f"| shared layers | 75.00 (n=1) | {stored['snips-shared-seed0']:,} | {share:.1f} | 0.0005 |" in page
    values = [row["value"] for row in results.load(tmp_path / "out/results.json") if row["metric"] == "accuracy"]
    assert sorted(values) == [0.75, 0.8, 0.9]
