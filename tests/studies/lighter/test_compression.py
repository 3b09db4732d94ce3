"""The study of cuts: what a point is, its search, and that a finished one is left alone."""

import numpy as np
import pytest

from lwt import errors
from lwt.report import searched, study
from lwt.runs import experiment
from lwt.training import train
from studies.lighter import compression, cuts

pytestmark = pytest.mark.usefixtures("compiled_once")
GIVEN = dict(epochs=2.0, ramp=1, smoke=True)


@pytest.fixture(scope="module")
def base(tiny, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("cuts") / "base")
    train.run(tiny({"steps": 2}), folder)
    return folder


def test_every_method_and_strength_is_a_point(base):
    found = compression.entries([base], **GIVEN, seeds=2)
    points = [entry for entry in found if not searched.is_search(entry.arguments)]
    assert len(points) == 2 * sum(len(method.strengths) for method in cuts.METHODS.values())
    assert len(found) == len(points) * 3 // 2
    assert len({entry.name for entry in found}) == len(found)
    assert len({entry.spec + str(entry.cut) for entry in points}) == len(points)
    sizes = {entry.arguments["strength"]: entry.training for entry in points if entry.arguments["method"] == "taught"}
    config = experiment.load(base).config.model
    assert sizes["0.5"]["width"] % (2 * config.heads) == 0 and 1 <= sizes["0.25"]["hidden"] < config.hidden


def test_a_search_takes_half_of_the_training(base):
    found = {entry.name: entry for entry in compression.entries([base], **GIVEN | dict(ramp=2))}
    search, run = found["search-gradual-0.8"], found["gradual-0.8-seed0"]
    assert (search.training["epochs"], search.training["ramp"]) == (1.0, 1)
    assert (run.training["epochs"], run.training["ramp"]) == (2.0, 2)
    assert search.arguments["strength"] == run.arguments["strength"]


def test_several_bases_are_those_of_the_seeds(base):
    found = compression.entries([base, "runs/other"], **GIVEN, seeds=2, train=False)
    assert {entry.arguments.get("seed", 0): entry.base for entry in found} == {0: base, 1: "runs/other"}
    with pytest.raises(errors.ConfigError, match="--base names 2 runs, --seeds is 3"):
        compression.entries([base, "runs/other"], **GIVEN, seeds=3)


def test_points(base, tmp_path):
    workdir = str(tmp_path / "runs")
    known = {entry.name: entry for entry in compression.entries([base], **GIVEN)}
    chosen = study.choose(list(known.values()), only="^(weights-0.5|gradual-0.5|svd-0.4|student-0.5)")
    records = {entry.name: compression.run(entry, workdir, known=known) for entry in chosen}
    weights, gradual, svd, student = records.values()
    assert weights["left"] == pytest.approx(0.5, abs=0.01) and gradual["left"] == pytest.approx(0.5, abs=0.01)
    assert svd["left"] < 1 > student["left"] > 0
    assert max(svd["bytes"], student["bytes"]) < weights["bytes"] == gradual["bytes"]
    assert gradual["cut"] is None is student["cut"] and np.isfinite([weights["cut"], svd["cut"]]).all()
    search = study.read_record(f"{workdir}/search-svd-0.4", compression.RECORD)
    assert [trial["rate"] for trial in search["tried"]] == list(cuts.METHODS["svd"].rates)
    assert (
        experiment.load(f"{workdir}/svd-0.4-seed0/trained").config.optimizer.learning_rate
        == svd["rate"]
        == search["rate"]
    )
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
    assert compression.run(chosen[0], workdir, known=known) == weights
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*.json")}
