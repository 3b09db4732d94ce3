"""The study of stems: its runs, a search with a run, and the page."""

import numpy as np
import pytest
from PIL import Image

from lwt.report import results
from studies.lighter import stems

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_every_model_has_one_search_and_its_seeds():
    names = [entry.name for entry in stems.entries(seeds=2)]
    assert len(set(names)) == len(names) == 3 * len(stems.MODELS)
    assert {"search-patches5", "patches5-seed0", "pooled2-seed1"} < {*names}


def test_models_differ_in_stem_and_layers_alone():
    known = {entry.name: entry for entry in stems.entries(seeds=1)}
    plain, deep, pooled = (stems.config_of(known[f"{name}-seed0"]) for name in ("patches2", "patches5", "pooled2"))
    assert (plain.model.stem, plain.model.layers, pooled.model.stem, deep.model.layers) == ("patches", 2, "pooled", 5)
    assert plain.model.pool == pooled.model.pool == "sequence" and plain.epochs == stems.EPOCHS
    assert stems.config_of(known["search-pooled2"]).epochs == stems.EPOCHS / 2
    for config in (deep, pooled):
        with config.unlocked():
            config.model.update(stem="patches", layers=2)
        assert config == plain


def test_a_search_a_run_and_the_page(tmp_path, monkeypatch):
    generator, models = np.random.default_rng(0), ("patches2", "patches3")
    for split, count in (("train", 24), ("validation", 6), ("test", 6)):
        for i in range(count):
            path = tmp_path / "data/cifar10" / split / "ab"[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(generator.integers(0, 255, (8, 8, 3), np.uint8)).save(path)
    monkeypatch.setenv("LWT_DATA", str(tmp_path / "data"))
    known = {entry.name: entry for entry in stems.entries(seeds=1, smoke=True)}
    names = [*(f"search-{name}" for name in models), *(f"{name}-seed0" for name in models)]
    records = {name: stems.run(known[name], str(tmp_path / "runs"), known=known) for name in names}
    assert [trial["rate"] for trial in records["search-patches2"]["tried"]] == list(stems.FIRST)
    two, three = (records[f"{name}-seed0"] for name in models)
    assert two["rate"] == records["search-patches2"]["rate"]
    assert three["parameters"] > two["parameters"] and three["flops"] > two["flops"]
    two["figures"]["accuracy"], three["figures"]["accuracy"] = 0.25, 0.75
    written = stems.write(tmp_path / "out", records, missing=["another"], command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(written)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page and "stems.png" in page
    assert page.count("\n| patches, 2 layers | ") == page.count("\n| patches, 3 layers | ") == 2  # also of the searches
    assert f"| patches, 3 layers | 75.00 (n=1) | {three['parameters']:,} |" in page
    assert {row["value"] for row in results.load(tmp_path / "out/results.json") if row["metric"] == "accuracy"} == {
        0.25, 0.75
    }  # fmt: skip
