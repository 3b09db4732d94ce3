"""The search of a rate: which rates it tries, which it takes, and that it resumes."""

import json
import math

import ml_collections
import pytest

from lwt import errors
from lwt.report import search, study

RECORD = "eval/study.json"


@pytest.mark.parametrize(
    "best, rates",
    [
        (7e-3, [2e-3, 8e-3, 3.2e-2, 4e-3, 1.6e-2]),
        (2e-2, [2e-3, 8e-3, 3.2e-2, 0.128, 1.6e-2]),
        (1e-5, [2e-3, 8e-3, 3.2e-2, 5e-4, 1.25e-4]),
        (1.1e-3, [2e-3, 8e-3, 3.2e-2, 5e-4, 1e-3]),
    ],
)
def test_the_rates_that_are_tried(best, rates):
    scored = {}
    for _ in range(search.TRIALS):
        rate = search.following(scored)
        scored[rate] = -round(abs(math.log2(rate / best)), 6)
    assert list(scored) == pytest.approx(rates)
    assert search.best_of(scored) == min(scored, key=lambda rate: abs(math.log2(rate / best)))


def test_a_rate_that_diverged_is_never_chosen():
    scored = search.scores({1e-3: {"loss": 2.0}, 4e-3: {"loss": 1.0}, 1.6e-2: {"loss": math.nan}, 1.0: {}}, "loss")
    assert scored == {1e-3: 2.0, 4e-3: 1.0, 1.6e-2: -math.inf, 1.0: -math.inf}
    assert search.best_of(scored) == 1e-3
    assert search.best_of({1e-3: -math.inf}) is None
    lower = dict.fromkeys(search.FIRST, -math.inf)
    assert search.following(lower) == 5e-4


def test_rates_of_other_sizes_lie_on_the_line_between_their_neighbours():
    found = {1: 0.016, 8: 0.008, 32: 0.002}
    assert search.interpolated(found, 16) == pytest.approx(0.004)
    assert [search.interpolated(found, rank) for rank in (1, 8, 32, 64)] == [0.016, 0.008, 0.002, 0.002]
    assert search.interpolated(found, 2) == pytest.approx(0.016 / 2 ** (1 / 3), rel=1e-5)


@pytest.fixture
def trained(monkeypatch):
    """Training that writes down the rates it was asked for; above 0.03 it diverges."""
    asked = []

    def run(entry, workdir, *, measure, record, config):
        asked.append(config.rate)
        if config.rate > 0.03:
            raise errors.NotFinite("step 3: loss not finite")
        found = measure(entry, f"{workdir}/{entry.name}")
        study.write_record(f"{workdir}/{entry.name}", found, record=record)
        return found

    monkeypatch.setattr(search.study, "run", run)
    monkeypatch.setattr(search.run_config, "keep", lambda config, folder: None)
    monkeypatch.setattr(search.records, "differs", lambda folder, config, **_: "")
    return asked


def search_here(workdir, measure, *, trials=search.TRIALS):
    def config_of(spec):
        return ml_collections.ConfigDict({"rate": float(spec.rpartition("rate=")[2]) if "rate=" in spec else 0.0})

    entry = study.Entry("search-lora", {"method": "lora"}, "file.py:method=lora")
    given = dict(record=RECORD, config_of=config_of, metric="loss", lower=True, trials=trials)
    return search.run(entry, str(workdir), measure=measure, **given)


def test_a_search_keeps_all_trials_and_runs_once(trained, tmp_path):
    def measure(folder):
        return {"loss": abs(math.log2(float(folder.rpartition("rate")[2]) / 0.008)), "accuracy": 0.5}

    found = search_here(tmp_path, measure)
    assert [trial["rate"] for trial in found["tried"]] == sorted(trained) and len(trained) == search.TRIALS
    assert found["rate"] == 0.008 and found["tried"][-1] == {"rate": 0.032}
    assert json.loads((tmp_path / "search-lora" / RECORD).read_text()) == found
    assert search_here(tmp_path, measure) == found and len(trained) == search.TRIALS
    (tmp_path / "search-lora" / RECORD).unlink()
    assert search_here(tmp_path, measure) == found
    assert trained.count(0.032) == 1, "a trial that diverged is not run again"


def test_a_search_of_fewer_trials_goes_on_from_its_record(trained, tmp_path):
    def measure(folder):
        return {"loss": abs(math.log2(float(folder.rpartition("rate")[2]) / 0.004))}

    found = search_here(tmp_path, measure, trials=3)
    assert trained == [2e-3, 8e-3, 3.2e-2] and found["rate"] == 2e-3
    for trial in found["tried"]:  # the record alone is left, as of a run that was trained elsewhere
        (tmp_path / "search-lora" / f"rate{trial['rate']:g}" / search.TRIAL).unlink(missing_ok=True)
    more = search_here(tmp_path, measure)
    assert trained[3:] == [5e-4, 4e-3] and more["rate"] == 4e-3
    assert [trial for trial in more["tried"] if trial["rate"] in trained[:3]] == found["tried"]
    assert search_here(tmp_path, measure, trials=3) == more and len(trained) == 5


def test_a_search_where_all_rates_diverge_is_an_error(trained, tmp_path):
    with pytest.raises(errors.DataError, match="training diverged at every rate from"):
        search_here(tmp_path, lambda folder: {"loss": math.nan})
