"""The study of positions: its configs, the groups of pairs, and a run with its page."""

import json
import re

import pytest

from studies.translation import positions

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_training_is_short_and_evaluation_long():
    assert [entry.name for entry in positions.entries(seeds=2)] == [
        "sinusoidal-seed0", "learned-seed0", "sinusoidal-seed1", "learned-seed1",
    ]  # fmt: skip
    sinusoidal, learned = map(positions.config_of, positions.entries(seeds=1))
    for config in (sinusoidal, learned):
        assert (config.data.row_length, config.data.max_tokens, config.steps) == (16, 127, 2_000)
    assert learned.model.max_length == 128 and "max_length" not in sinusoidal.model
    same = {key: value for key, value in learned.model.items() if key not in ("positions", "max_length")}
    assert learned.to_dict() | {"model": same} == sinusoidal.to_dict()


def test_groups():
    names = ["up to 15", "up to 15", "16 to 20", "16 to 20", "21 to 25", "21 to 25", "26 and more", "26 and more"]
    assert positions.groups_of([1, 15, 16, 20, 21, 25, 26, 99]) == names


def test_a_run_and_the_page(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "multi30k_de_en"
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("validation", 4), ("test2016_flickr", 6)):
        texts = [" ".join(["hund", "katze"][: 1 + i % 2] * (1 + 20 * (i % 3 == 0))) for i in range(count)]
        rows = [{"de": text, "en": text.replace("hund", "dog")} for text in texts]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("LWT_DATA", str(folder.parent))
    whole = positions.config_of

    def shallow(entry):
        config = whole(entry)
        config.model.update(encoder_layers=1, decoder_layers=1)
        config.model.width = 32
        return config

    monkeypatch.setattr(positions, "config_of", shallow)
    records = {}
    for entry in positions.entries(seeds=1, smoke=True):
        records[entry.name] = positions.run(entry, str(tmp_path / "runs"))
    sinusoidal, learned = records.values()
    assert sinusoidal["trained_pairs"] == 26  # a third of the 40 is long
    assert {name: own["pairs"] for name, own in learned["groups"].items()} == {
        "up to 15": 4,
        "21 to 25": 1,
        "26 and more": 1,
    }
    width = positions.config_of(entry).model.width
    assert learned["parameters"] - sinusoidal["parameters"] == 2 * 128 * width  # a table each for source and target
    learned["groups"]["up to 15"]["bleu"], learned["groups"]["26 and more"]["bleu"] = 20.0, 5.0
    sinusoidal["groups"]["up to 15"]["bleu"] = 0.0
    positions.write(tmp_path / "out", records, missing=["another"], command_line="c")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page
    assert "| positions | parameters | all | up to 15 (4) | 21 to 25 (1) | 26 and more (1) | kept (%) |" in page
    assert re.search(r"^\| learned \| .* \| 5.00 \(n=1\) \| 25 \(n=1\) \|$", page, re.MULTILINE)
    assert re.search(r"^\| sinusoids \| .* \| – \|$", page, re.MULTILINE)
