"""The study of initial weights: its runs, a search with a run, and the page."""

import json

import pytest

from lwt.report import results
from studies.embbert import initial

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_every_kind_of_initial_weights_has_one_search_and_its_seeds():
    names = [entry.name for entry in initial.entries(seeds=2)]
    kinds = len(initial.MODELS) * len(initial.SCALES) + sum(map(len, initial.PRETRAINED.values()))
    assert len(set(names)) == len(names) == 3 * len(initial.TASKS) * kinds
    assert {"search-emotion-bert_2mb-small", "snips-embbert-pretrained_small-seed1"} < {*names}
    assert "emotion-embedder-pretrained-seed0" not in names


@pytest.mark.parametrize("model", initial.MODELS)
def test_runs_of_a_model_differ_in_two_scales_alone(model):
    known = {entry.name: entry for entry in initial.entries(seeds=1)}
    found = {kind: initial.config_of(known[f"emotion-{model}-{kind}-seed0"]) for kind in initial.SCALES}
    scales = {kind: (config.model.embedding_std, config.model.position_std) for kind, config in found.items()}
    assert scales == {"paper": (1, 1), "positions": (1, 0.05), "small": (0.02, 0.02)}
    assert initial.config_of(known[f"search-emotion-{model}-small"]).epochs == initial.EPOCHS / 2
    for config in found.values():
        with config.unlocked():
            config.model.update(embedding_std=1.0, position_std=1.0)
    assert found["small"] == found["positions"] == found["paper"]


def test_pretrained_models_begin_with_the_weights_of_their_bundles():
    known = {entry.name: entry for entry in initial.entries(seeds=1)}
    for kind, bundles in initial.PRETRAINED.items():
        for model, bundle in bundles.items():
            config = initial.config_of(known[f"snips-{model}-{kind}-seed0"])
            assert config.init_from == bundle and config.epochs == initial.EPOCHS


def test_a_search_a_run_and_the_page(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "emotion"
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("validation", 10), ("test", 10)):
        records = [{"text": f"i feel {'good bad odd'.split()[i % 3]} on day {i}", "label": i % 3} for i in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    monkeypatch.setenv("LWT_DATA", str(tmp_path / "data"))
    known = {entry.name: entry for entry in initial.entries(seeds=1, smoke=True)}
    kinds = ("paper", "small")
    names = [
        f"{start}emotion-embedder-{kind}{end}" for start, end in (("search-", ""), ("", "-seed0")) for kind in kinds
    ]
    found = {name: initial.run(known[name], str(tmp_path / "runs"), known=known) for name in names}
    searched, large, small = found[names[0]], *(found[f"emotion-embedder-{kind}-seed0"] for kind in kinds)
    rates = [trial["rate"] for trial in searched["tried"]]
    assert {*initial.FIRST} < {*rates} and len(rates) == initial.TRIALS and large["rate"] == searched["rate"]
    large["figures"]["accuracy"], small["figures"]["accuracy"] = 0.25, 0.75
    searched["tried"][-1] = {"rate": searched["tried"][-1]["rate"]}
    written = initial.write(tmp_path / "out", found, missing=["another"], command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(written)
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page and "emotion.png" in page and "## Snips" not in page
    assert "\n| Embedder | 25.00 (n=1) | – | 75.00 (n=1) | – | – |\n" in page
    assert page.count("\n| Embedder | 1, 1 | ") == 1 and "| diverged |" in page
    assert {row["value"] for row in results.load(tmp_path / "out/results.json")} == {0.25, 0.75}
