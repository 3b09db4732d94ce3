"""Studies with searched rates: the names and order of their runs, trials of half the length, groups and tables."""

import pytest

from lwt.report import searched
from lwt.runs import config_file

SETTINGS = [dict(task="snips", layers=2, model="bert"), dict(task="snips", layers=4, model="bert")]


def record(rate=0.1, **arguments):
    return {"arguments": arguments, "rate": rate, "figures": {"accuracy": rate}}


def test_searches_come_before_the_runs_seed_by_seed():
    found = searched.entries(SETTINGS, of=lambda own, seed: f"f.py:n={own['layers']},seed={seed}", seeds=2)
    names = [
        "search-snips-layers2-bert", "search-snips-layers4-bert", "snips-layers2-bert-seed0",
        "snips-layers4-bert-seed0", "snips-layers2-bert-seed1", "snips-layers4-bert-seed1",
    ]  # fmt: skip
    assert [entry.name for entry in found] == names
    assert [found[i].spec for i in (1, 5)] == ["f.py:n=4,seed=0", "f.py:n=4,seed=1"]
    assert [searched.is_search(entry.arguments) for entry in found] == [True, True, *[False] * 4]
    assert [searched.search_of(entry) for entry in found] == names[:2] * 3
    smoke = searched.entries(SETTINGS, of=lambda own, seed: "f.py:n=2", seeds=1, smoke=True)
    assert {entry.spec for entry in smoke} == {"f.py:n=2,smoke=true"}


@pytest.mark.parametrize("given, length", [("epochs=4", {"epochs": 2.0}), ("epochs=4,smoke=true", {})])
def test_a_trial_is_half_as_long_as_a_run(given, length):
    spec = f"configs/embbert_finetune.py:{given}"
    trial, run = searched.entries([{"task": "snips"}], of=lambda own, seed: spec, seeds=1)
    whole = config_file.load(spec)
    assert searched.shortened(config_file.load(spec), run) == whole
    assert searched.shortened(config_file.load(spec), trial).to_dict() == whole.to_dict() | length
    with whole.unlocked():
        whole.epochs, whole.steps = 0.0, 501
    if length:
        assert searched.shortened(whole, trial).steps == 250


def test_records_are_parted_and_grouped():
    records = {
        "search-b": record(stage="search", model="b"),
        "times": record(stage="times"),
        "b1": record(0.75, model="b", task="x", seed=1),
        "b0": record(0.5, model="b", task="x", seed=0),
        "a0": record(0.25, model="a", task="x", seed=0),
        "y": record(model="a", task="y", seed=0),
    }
    runs, searches = searched.parted(records)
    assert searches == [records["search-b"]] and runs == [records[name] for name in ("b1", "b0", "a0", "y")]
    found = searched.grouped(runs, order=("c", "a", "b"), by="model", task="x")
    assert list(found) == ["a", "b"] and found["b"] == [records["b0"], records["b1"]]
    assert searched.accuracies(found["b"]) == [50, 75]


def test_the_standard_error_of_the_test_set():
    runs = [{"figures": {"accuracy": share, "records": 400}} for share in (0.85, 0.95)]
    wanted = "The standard error of an accuracy of 90.0 % on 400 texts is 1.5 points."  # 100 · √(0.9 · 0.1 / 400)
    assert searched.error_of(runs) == wanted


def test_the_table_of_searches():
    tried = [{"rate": 0.001, "mcc": 0.5}, {"rate": 0.01}]
    own = record(stage="search", model="a") | {"metric": "mcc", "tried": tried, "rate": 0.001}
    other = record(stage="search", model="b") | {"metric": "mcc", "tried": [{"rate": 0.1, "mcc": 0.25}], "rate": 0.1}
    text = searched.table([own, other], labels={"model": lambda record: record["arguments"]["model"]})
    assert text.splitlines()[0] == "| model | 0.001 | 0.01 | 0.1 |"
    assert text.splitlines()[2:] == ["| a | 50.0* | diverged | – |", "| b | – | – | 25.0 |"]
    assert searched.about([own, other]).endswith(searched.EDGES)
    between = own | {"tried": [*tried, {"rate": 0.0001, "mcc": 0.4}]}
    assert searched.about([between, other]) == "MCC (%) on the validation set after half of the training, by rate."
