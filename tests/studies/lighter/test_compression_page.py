"""The page of the study of cuts: pairs of seeds, the picture, the searches."""

import pytest

from lwt import errors
from lwt.report import results
from studies.lighter import compression_page, cuts

RECORD = dict(
    config="c.py:seed=0", base="runs/a", rate=5e-4, metric="mcc", lower=False, whole=0.95, cut=0.5, trained=0.94,
    left=0.5, bytes=4000, data="x@test", seconds=60.0, hardware="m",
)  # fmt: skip
SVD, STUDENT = dict(method="svd", strength="0.4"), dict(method="student", strength="0.5")


def records():
    """Two seeds of a cut, one of a student, and a search."""
    tried = [dict(rate=1e-3, mcc=0.9), dict(rate=4e-3)]
    search = dict(arguments=SVD | dict(stage="search"), config="c", metric="mcc", tried=tried, rate=1e-3)
    found = {"svd-0": RECORD | dict(arguments=SVD | dict(seed=0))}
    found["svd-1"] = RECORD | dict(arguments=SVD | dict(seed=1), base="runs/b", whole=0.97, trained=0.95, cut=0.6)
    found["student-0"] = RECORD | dict(arguments=STUDENT | dict(seed=0), cut=None, bytes=1000)
    return found | {"search-svd": search}


def test_the_page(tmp_path):
    names = compression_page.write(tmp_path, records(), missing=["units-0.5-seed0"], command_line="c")
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    text = (tmp_path / "README.md").read_text()
    assert "- Not in the figures: units-0.5-seed0." in text
    assert "The bases, `runs/a, runs/b`, have 96.00 ± 1.41 % MCC on `x@test`." in text
    cut = "| SVD | energy 0.4 | 50.0% | 4,000 | 55.00 ± 7.07 | 94.50 ± 0.71 (n=2) | -1.50 ± 0.71 | 1.0 |"
    assert cut in text
    assert "| student | width 0.5 | 50.0% | 1,000 | – | 94.00 (n=1) | -1.00 | 1.0 |" in text
    assert "MCC (%) on the validation set" in text and "| SVD | 0.4 | 90.0* | diverged |" in text
    rows = results.load(tmp_path / "results.json")
    assert {row["metric"] for row in rows} == {"mcc", "mcc_as_cut", "base", "left", "bytes"}


def test_a_seed_has_one_base(tmp_path):
    found = records()
    found["svd-1"]["arguments"] = found["svd-1"]["arguments"] | dict(seed=0)
    with pytest.raises(errors.ConfigError, match="points of seed 0 with the bases runs/a, runs/b; a seed has one base"):
        compression_page.write(tmp_path, found, missing=[], command_line="c")


def test_the_picture_s_title_names_the_metric(monkeypatch):
    drawn = []
    monkeypatch.setattr(compression_page.plots, "rows", lambda lines, *_, title, **__: drawn.append((title, lines)))
    compression_page.draw("x.png", [record for record in records().values() if "stage" not in record["arguments"]])
    title, lines = drawn[0]
    assert (
        title == f"The fewest numbers at which each method loses at most {compression_page.LOST} points of 96.0 % MCC"
    )
    assert lines[cuts.METHODS["svd"].title] == {"left": 50.0, "trained": [94.0, 95.0], "cut": [50.0, 60.0]}
