"""The study of ranks: a run trains the ranks that were given out for it, under the budget of its uniform one."""

import pytest

from lwt import errors
from lwt.report import results, searched, study
from lwt.runs import experiment
from lwt.training import train
from studies.lighter import allocation

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_ranks_under_a_budget(tiny, tmp_path):
    base, workdir = str(tmp_path / "base"), str(tmp_path / "runs")
    train.run(tiny({"steps": 2}), base)
    given = dict(data="generated:arithmetic", epochs=1.0)
    found = allocation.entries([base], workdir, **given, seeds=2, smoke=True)
    assert len({entry.name for entry in found}) == len(found) == (2 + 1) * (5 + 2 * 4)
    known = {entry.name: entry for entry in found}
    (entry,) = study.choose(found, only="energy-rank4-seed1")
    record = allocation.run(entry, workdir, known=known)
    whole = study.read_record(f"{workdir}/uniform-rank16-seed1", allocation.RECORD)
    assert set(whole["ranks"].values()) == {16} and set(record["ranks"]) <= set(whole["ranks"])
    smallest = min(whole["parameters"] // sum(whole["ranks"].values()), 64)  # a direction takes no more than this
    assert whole["parameters"] / 4 - smallest < record["parameters"] <= whole["parameters"] / 4
    assert len(set(record["ranks"].values())) > 1 and record["base"] == base
    search = study.read_record(f"{workdir}/search-energy-rank4", allocation.RECORD)
    config = experiment.load(f"{workdir}/{entry.name}").config
    assert config.optimizer.learning_rate == search["rate"] == record["rate"] and config.seed == 1
    assert {trial["rate"] for trial in search["tried"]} == {*allocation.RATES}

    records, missing = study.collect(workdir, found, record=allocation.RECORD)
    names = allocation.write(tmp_path / "out", records, missing=missing, command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)
    text = (tmp_path / "out/README.md").read_text()
    assert "Not in the figures: search-uniform-rank8," in text and "| 4 | allocated by energy |" in text
    runs = searched.parted(records)[0]
    assert len(results.load(tmp_path / "out/results.json")) == 2 * len(runs) == 6


def test_several_bases_are_those_of_the_seeds():
    given = dict(data="folder:x", epochs=1.0, seeds=2)
    found = allocation.entries(["runs/a", "runs/b"], "runs/allocation", **given)
    assert {entry.arguments.get("seed", 0) for entry in found if "base=runs/a" in entry.spec} == {0}
    assert {entry.arguments.get("seed", 0) for entry in found if "base=runs/b" in entry.spec} == {1}
    with pytest.raises(errors.ConfigError, match="--base names 3 runs, --seeds is 2"):
        allocation.entries(["a", "b", "c"], "runs/allocation", **given)
