"""The study of cuts: what a point is, that a finished one is left alone, and the page."""

import numpy as np
import pytest

from lwt import errors
from lwt.report import results, study
from lwt.runs import experiment
from lwt.training import train
from studies.lighter import compression as cuts

pytestmark = pytest.mark.usefixtures("compiled_once")
GIVEN = dict(epochs=2.0, ramp=1, smoke=True)


@pytest.fixture(scope="module")
def base(tiny, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("cuts") / "base")
    train.run(tiny({"steps": 2}), folder)
    return folder


def test_every_method_and_strength_is_a_point(base):
    found = cuts.entries(base, **GIVEN, seeds=2)
    assert len(found) == 2 * sum(len(method.strengths) for method in cuts.METHODS.values())
    assert len({entry.name for entry in found}) == len({entry.spec + str(entry.chain) for entry in found}) == len(found)
    sizes = {entry.arguments["strength"]: entry.chain[-1][2] for entry in found if "taught" in entry.name}
    config = experiment.load(base).config.model
    assert sizes["0.5"]["width"] % (2 * config.heads) == 0 and 1 <= sizes["0.25"]["hidden"] < config.hidden


def test_points_and_their_page(base, tmp_path):
    chosen = study.choose(cuts.entries(base, **GIVEN), only="weights-0.5|gradual-0.5|svd-0.4|student-0.5")
    records = {entry.name: cuts.run(entry, str(tmp_path / "runs"), base=base) for entry in chosen}
    weights, gradual, svd, student = records.values()
    assert weights["left"] == pytest.approx(0.5, abs=0.01) and gradual["left"] == pytest.approx(0.5, abs=0.01)
    assert svd["left"] < 1 > student["left"] > 0
    assert max(svd["bytes"], student["bytes"]) < weights["bytes"] == gradual["bytes"]
    assert gradual["cut"] is None is student["cut"] and np.isfinite([weights["cut"], svd["cut"]]).all()
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
    assert cuts.run(chosen[0], str(tmp_path / "runs"), base=base) == weights
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}

    names = cuts.write(tmp_path / "out", records, missing=["units-0.5-seed0"], command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)
    text = (tmp_path / "out/README.md").read_text()
    assert "- Not in the figures: units-0.5-seed0." in text and "| SVD | energy 0.4 |" in text
    rows = results.load(tmp_path / "out/results.json")
    assert {row["metric"] for row in rows} >= {"left", "bytes"}
    records["other"] = weights | {"base": "runs/other"}
    with pytest.raises(errors.ConfigError, match="the workdir holds points of .*; one base has one workdir"):
        cuts.write(tmp_path / "out", records, missing=[], command_line="c")


def test_the_picture_s_title_names_the_metric(monkeypatch):
    titles, first = [], next(iter(cuts.METHODS))
    record = {"metric": "mcc", "whole": 0.957, "trained": 0.95, "cut": None, "left": 0.5}
    record["arguments"] = {"method": first, "strength": f"{cuts.METHODS[first].strengths[0]:g}"}
    monkeypatch.setattr(cuts.plots, "rows", lambda *_, title, **__: titles.append(title))
    cuts.draw("x.png", {"a": record})
    assert titles == [f"The fewest numbers at which each method loses at most {cuts.LOST} points of 95.7 % MCC"]
