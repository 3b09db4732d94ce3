"""The study of ranks: a run trains the ranks that were given out for it, under the budget of its uniform one."""

import pytest

from lwt.report import results, study
from lwt.runs import experiment
from lwt.training import train
from studies.lighter import allocation

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_ranks_under_a_budget(tiny, tmp_path):
    base, workdir = str(tmp_path / "base"), str(tmp_path / "runs")
    train.run(tiny({"steps": 2}), base)
    given = dict(data="generated:arithmetic", epochs=1.0, rate=0.01)
    found = allocation.entries(base, workdir, **given, seeds=2, smoke=True)
    assert len({entry.name for entry in found}) == len(found) == 2 * (5 + 2 * 4)
    (entry,) = study.choose(found, only="energy-r4-seed1")
    record = allocation.run(entry, workdir)
    whole = study.read_record(f"{workdir}/{allocation.largest(1)}", allocation.RECORD)
    assert set(whole["ranks"].values()) == {16} and set(record["ranks"]) <= set(whole["ranks"])
    smallest = min(whole["parameters"] // sum(whole["ranks"].values()), 64)  # a direction takes no more than this
    assert whole["parameters"] / 4 - smallest < record["parameters"] <= whole["parameters"] / 4
    assert len(set(record["ranks"].values())) > 1
    config = experiment.load(f"{workdir}/{entry.name}").config
    assert config.optimizer.learning_rate == 0.01 and config.seed == 1

    records, missing = study.collect(workdir, found[:1], record=allocation.RECORD)
    names = allocation.write(tmp_path / "out", records, missing=missing, command_line="c")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(names)
    text = (tmp_path / "out/README.md").read_text()
    assert "Not in the figures: uniform-r16-seed0." in text and "| 4 | allocated by energy |" in text
    assert len(results.load(tmp_path / "out/results.json")) == 4
