"""The recipe's table and rows, of one seed and of several."""

import pytest

from lwt.report import results
from studies.lighter import recipe_page

ROW = dict(task="x@test", metric="accuracy", parameters=1000, bytes=4000, milliseconds=2.0, rate=50.0, seconds=60.0)
SMALL = ROW | dict(name="int8", bytes=400, rate=100.0, seconds=0.0)


def test_the_table():
    other = ROW | dict(name="adapter", task="y@test", qualities=[0.5])
    text = recipe_page.table([ROW | dict(name="teacher", qualities=[0.9]), SMALL | dict(qualities=[0.88]), other])
    assert "| teacher | 90.00 | – | 1,000 | 4,000 | 100.0% | 2.00 | 50 | 1.00 | 1.0 |" in text
    assert "| int8 | 88.00 | -2.00 | 1,000 | 400 | 10.0% | 2.00 | 100 | 2.00 | 0.0 |" in text
    assert "| adapter, on `y@test` | 50.00 | – |" in text


def test_differences_pair_the_seeds(tmp_path):
    teacher = ROW | dict(name="teacher", qualities=[0.9, 0.92])
    stages = [teacher, SMALL | dict(qualities=[0.89, 0.91])]
    text = recipe_page.table(stages)
    assert "| teacher | 91.00 ± 1.41 | – |" in text and "| int8 | 90.00 ± 1.41 | -1.00 ± 0.00 |" in text
    recipe_page.write(tmp_path, stages, config="c.py", kind="classification", command_line="c", machine="m")
    page = (tmp_path / "README.md").read_text()
    assert "run with 2 seeds" in page and recipe_page.ONE_SEED not in page
    rows = [row for row in results.load(tmp_path / "results.json") if row["metric"] == "accuracy"]
    found = [(row["overrides"]["stage"], row["seed"], row["value"]) for row in rows]
    assert found == [("teacher", 0, 0.9), ("teacher", 1, 0.92), ("int8", 0, 0.89), ("int8", 1, 0.91)]
    with pytest.raises(ValueError):  # a stage lacks a seed
        recipe_page.table([teacher, SMALL | dict(qualities=[0.89])])
