"""The study of Vertical LoRA: its configs, a run, and the page of records that are made up."""

import dataclasses

import pytest

from lwt.inspect import cost
from studies.vertical import report, study

pytestmark = pytest.mark.usefixtures("compiled_once")


def entry_of(name, **more):
    (found,) = [entry for entry in study.entries(**more) if entry.name == name]
    return found


def test_entries():
    names = [entry.name for entry in study.entries(seeds=2)]
    # whole, and three ranks: in two modes for images, augmented or not, in one mode for the others
    assert len(names) == len(set(names)) == 2 * (7 + 7 + 4)
    assert names[0] == "images-whole-seed0" and "translation-recursive-r2-seed1" in names


@pytest.mark.parametrize("rank, expected", [(8, 2_766_602), (4, 2_619_146), (2, 2_545_418)])
def test_the_papers_counts(rank, expected):
    config = study.config_of(entry_of(f"images-base-r{rank}-seed0"))
    assert cost.parameters(config)["total"] == expected


def test_configs():
    config = study.config_of(entry_of("images-base-r4-seed0", size="small", epochs=3.0))
    assert config.reparam.to_dict() == {"name": "vertical", "chunks": 2, "rank": 4, "mode": "base"}
    assert (config.epochs, config.model.layers, config.precision) == (3, 6, "float32")
    config = study.config_of(entry_of("unaugmented-whole-seed0", size="small", epochs=3.0))
    assert (config.epochs, config.data.rows, "flip" in config.task) == (3, 32, False)
    config = study.config_of(entry_of("translation-whole-seed1", seeds=2))
    assert (config.seed, config.steps, config.reparam.name) == (1, 1_500, "none")


def test_a_run(tmp_path, monkeypatch):
    narrow = dataclasses.replace(study.TASKS["translation"], arguments=dict(data="generated:arithmetic"), settings={})
    monkeypatch.setitem(study.TASKS, "translation", narrow)
    entry = entry_of("translation-recursive-r2-seed0", smoke=True)
    record = study.run(entry, str(tmp_path / "runs"))
    assert record["steps"] == 2 and record["figures"]["records"] > 0
    costs = record["costs"]
    assert costs["parameter_bytes"] == 4 * costs["parameters"]
    assert 0 <= costs["optimizer_bytes"] - 8 * costs["parameters"] < 100  # two moments, and counters
    report.write(tmp_path / "out", {entry.name: record}, missing=["another"], command_line="c")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: another." in page and (tmp_path / "out" / "translation.png").exists()


def record_of(mode, seed, quality, parameters, losses, **rank):
    return {
        "arguments": {"task": "images", "mode": mode, "seed": seed} | rank,
        "config": "configs/x.py",
        "steps": 20,
        "figures": {"data": "folder:x@test", "accuracy": quality},
        "costs": {
            "parameters": parameters,
            "parameter_bytes": 4 * parameters,
            "optimizer_bytes": 8 * parameters,
            "step_seconds": 0.2,
        },
        "curves": {
            "train": {"loss": [[1, 2], [2.0, 1.0]], "accuracy": [[1, 2], [0.1, 0.2]]},
            "validation": {"loss": [[1, 2, 3], losses], "accuracy": [[1, 2, 3], [0.1, quality, 0.1]]},
        },
        "seconds": 1800.0,
        "hardware": "h",
    }


def test_the_page(tmp_path):
    records = {
        f"{mode}{seed}": record_of(mode, seed, quality, count, losses, **rank)
        for mode, seed, quality, count, losses, rank in (
            ("recursive", 0, 0.78, 270, [2.0, 1.5, 1.0], {"rank": 4}),
            ("whole", 0, 0.80, 1000, [2.0, 1.0, 1.5], {}),
            ("whole", 1, 0.82, 1000, [2.0, 1.0, 1.7], {}),
        )
    }
    files = report.write(tmp_path, records, missing=[], command_line="python -m study")
    assert {path.name for path in tmp_path.iterdir()} == set(files)
    text = (tmp_path / "README.md").read_text()
    whole = "| whole | 81.00 ± 1.41 (n=2) | – | 81.00 ± 1.41 (n=2) | 0.600 | 1.000 | 1,000 | 100.00 % | 0.0 | 200 |"
    other = "| recursive, rank 4 | 78.00 (n=1) | -3.00 | 78.00 (n=1) | 0.000 | 1.000 | 270 | 27.00 % | 0.0 | 200 |"
    assert whole in text and other in text
    assert text.index("| whole |") < text.index("| recursive, rank 4 |")
    assert "3 runs, 1.5 hours in all on h." in text
    assert report.last_tenth(list(range(39))) == [36, 37, 38]
