"""A sweep trains a grid, resumes it, and ranks it; `lwt compare` reads its runs."""

import json
import pathlib

import pytest

from lwt import errors
from lwt.commands import sweep
from lwt.inspect import comparison
from lwt.machine import config_folder
from tests import forks

ROOT = pathlib.Path(__file__).parents[2]
TINY = str(ROOT / "tests/training/tiny.py")
SHORT = ["--config.steps=2", "--config.eval_every=1", "--config.save_every=2"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The folder of a sweep over two learning rates, what the program said when it was called again, and what
    ``lwt compare`` said of its runs: lines, and the last line as JSON."""
    folder = tmp_path_factory.mktemp("sweep")
    rates, command = ["learning_rate=1e-4,1e-1"], [f"--config={TINY}", *SHORT, f"--workdir={folder}"]
    runs = [str(folder / f"learning_rate={rate}") for rate in ("1e-4", "1e-1")]
    calls = [("lwt sweep", command + rates), ("lwt sweep", rates + command)]
    calls.append(("lwt compare", [*runs, f"--plot={folder}/x.png"]))
    found = []
    for code, said in forks.answers(calls).values():
        assert code == 0, said
        *lines, last = said.splitlines()
        found.append((lines, json.loads(last)))
    first, again, compared = found
    assert "compiling ..." in first[0] and "compiling ..." not in again[0], "finished runs are left alone"
    assert first[1] == again[1]
    return folder, again, compared


def test_the_best_run_is_first(swept):
    folder, (lines, best), _ = swept
    rates = {rate: comparison.facts(folder / f"learning_rate={rate}") for rate in ("1e-4", "1e-1")}
    order = sorted(rates, key=lambda rate: rates[rate].best)
    rows = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| 1e-")]
    assert rows == order and best["arguments"] == {"optimizer.learning_rate": order[0]}
    assert best["run"] == f"{folder}/learning_rate={order[0]}" and best["best"] == rates[order[0]].best
    assert (folder / "README.md").read_text().startswith("# Sweep of ") and (folder / "curves.png").stat().st_size


def test_compare_reads_the_runs(swept):
    folder, (_, best), (lines, found) = swept
    assert [line for line in lines if "learning_rate |" in line] == ["| optimizer.learning_rate | 0.0001 | 0.1 |"]
    assert found[best["run"]]["best"] == best["best"] and (folder / "x.png").stat().st_size


def test_a_sweep_whose_runs_all_failed_says_so(tmp_path):
    (tmp_path / "seed=1").mkdir()
    (tmp_path / "seed=1" / sweep.RECORD).write_text('{"best": 1.0}')
    assert sweep.recorded(str(tmp_path), names=["seed=0", "seed=1"]) == {"seed=1": {"best": 1.0}}
    with pytest.raises(errors.DataError, match="each of the 2 runs failed"):  # whatever other runs the folder has
        sweep.recorded(str(tmp_path), names=["seed=0", "seed=2"])


KEYS = ["seed", "optimizer.learning_rate", "data.rows", "model.name", "task.name"]


def test_settings_are_arguments_or_keys():
    found = sweep.parse(["rank=4,8", "learning_rate=1,2", "data.rows=8"], arguments={"rank": 16}, keys=KEYS)
    assert [(one.key, one.is_argument) for one in found] == [
        ("rank", True), ("optimizer.learning_rate", False), ("data.rows", False),
    ]  # fmt: skip
    combinations = sweep.grid(found)
    assert len(combinations) == 4 and sweep.name_of(combinations[-1]) == "rank=8,learning_rate=2,rows=8"


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "name the settings to try: lwt sweep"),
        ("learning_rate", "'learning_rate' should be KEY=VALUE,VALUE"),
        ("seed=1,,2", "should be KEY=VALUE,VALUE"),
        ("seed=1,1", "with different values"),
        ("sead=1,2", "'sead' names no key; did you mean 'seed'"),
        ("name=a,b", "'name' names several keys; choose from model.name, task.name"),
        ("rank=1 seed=1 seed=2", "seed is given twice"),
        (f"seed={','.join(map(str, range(1001)))}", "1001 runs; a sweep has at most 1000"),
        (f"seed={','.join(map(str, range(10**5)))} rank={','.join(map(str, range(10**5)))}", "10000000000 runs"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    with pytest.raises(errors.ConfigError, match=words):
        sweep.parse(text.split(), arguments={"rank": 16}, keys=KEYS)


def test_values_take_the_type_of_the_key():
    texts = ["rank=8", "optimizer.learning_rate=2", "eval_decode=false", "patience=1e1"]
    settings = sweep.parse(texts, arguments={"rank": 16}, keys=[*sweep.keys_of(config_folder.defaults())])
    chosen = {"rank": "8", "optimizer.learning_rate": "2", "eval_decode": "false", "patience": "1e1"}
    given = {"settings": settings, "overrides": {"steps": 7}}
    config = sweep.config_of("lora_ranks:base=x", chosen, **given)
    assert (config.reparam.rank, config.optimizer.learning_rate, config.eval_decode, config.steps) == (8, 2.0, False, 7)
    assert config.patience == 10
    for key, text, words in (
        ("eval_decode", "no!", "of type bool"),
        ("optimizer.learning_rate", "a", "of type float"),
        ("patience", "1.5", "of type int"),
    ):
        with pytest.raises(errors.ConfigError, match=f"{key}={text}: it should be {words}"):
            sweep.config_of("lora_ranks:base=x", {**chosen, key: text}, **given)


def test_the_best_is_first_and_what_is_not_finite_last():
    records = {name: {"best": best} for name, best in (("a", 1.0), ("b", float("nan")), ("c", 2.0))}
    assert [*sweep.ranked(records, mode="max")] == ["c", "a", "b"] and [*sweep.ranked(records, mode="min")][0] == "a"
