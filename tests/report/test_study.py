"""Studies of runs that are not trained: which runs are chosen, what is done again, and what the page gets."""

import json
import os
import types

import pytest
from absl import flags

from lwt import errors
from lwt.report import records, results, study
from lwt.runs import checkpoint, run_config

RECORD = "eval/study.json"


@pytest.fixture
def trained(monkeypatch):
    """Folders whose training was asked for; a training ends at step 4, or at 2 in a folder called "stopped"."""
    asked, last = [], {}

    def train(config, folder):
        asked.append(folder.rpartition("/")[2])
        last[folder] = 2 if asked[-1] == "stopped" else 4

    checkpoints = types.SimpleNamespace
    monkeypatch.setattr(study, "train", types.SimpleNamespace(run=train))
    monkeypatch.setattr(checkpoint, "of_run", lambda folder: checkpoints(last_step=lambda: last.get(folder)))
    return asked


def entries(*names):
    return [study.Entry(name, {"seed": i}, f"config.py:seed={i}") for i, name in enumerate(names)]


def test_runs_are_chosen_by_name_and_number():
    found = entries("a-1", "a-2", "b-1")
    assert [entry.name for entry in study.choose(found, only="^a")] == ["a-1", "a-2"]
    assert study.choose(found, only="1$", index=1) == [found[2]] and study.choose(found) == found
    wrong = {("c", -1): "matches none of the 3", ("(", -1): "not a regular expression", ("a", 2): "numbered 0 to 1"}
    for (only, index), message in wrong.items():
        with pytest.raises(errors.ConfigError, match=message):
            study.choose(found, only=only, index=index)


def test_specs():
    assert study.spec_of("c.py", {"rank": 4, "method": "lora"}) == "c.py:rank=4,method=lora"
    assert study.spec_of("c.py", {"rank": 4}, more="steps=7") == "c.py:rank=4,steps=7"


def test_finished_runs_are_left_alone_and_unfinished_ones_resumed(tiny, trained, tmp_path):
    config, measured = tiny({"steps": 4}), []

    def run(entry):
        def measure(entry, folder):
            measured.append(entry.name)
            return {"figures": 1}

        return study.run(entry, str(tmp_path), measure=measure, record=RECORD, config=config)

    done, stopped = entries("done", "stopped")
    record = {"arguments": {"seed": 0}, "config": "config.py:seed=0", "steps": 4, "figures": 1}
    assert run(done) == record == study.read_record(tmp_path / "done", RECORD)
    assert run(done) == record and trained == measured == ["done"]
    with pytest.raises(study.Interrupted, match="stopped before step 4; the same command resumes it"):
        run(stopped)
    assert trained == ["done", "stopped"] and measured == ["done"]
    config = tiny({"steps": 3})
    with pytest.raises(errors.ConfigError, match="steps"):  # of a run that is longer than the study's
        study.finished(str(tmp_path / "done"), config.steps)


def test_a_record_is_used_only_if_its_config_is_the_study_s(tiny, trained, tmp_path, caplog):
    (entry,) = entries("a")
    line = {"name": "a", "config": tiny({"steps": 4}).to_dict(), "metrics": [{"step": 4}]}
    line |= {"records": {RECORD: {"arguments": {}, "config": "config.py:seed=0", "steps": 4, "figures": "old"}}}
    path = tmp_path / records.NAME

    def run(config, line, workdir):
        records.write(path, {"a": json.loads(json.dumps(line))})
        records.unpack(path, workdir)
        before = {file: file.read_bytes() for file in (workdir / "a").iterdir() if file.is_file()}
        given = dict(measure=lambda *_: {"figures": "new"}, record=RECORD, config=config)
        figures = study.run(entry, str(workdir), **given)["figures"]
        return figures, before == {file: file.read_bytes() for file in (workdir / "a").iterdir() if file.is_file()}

    with caplog.at_level("INFO"):
        assert run(tiny({"steps": 4, "log_every": 3}), line, tmp_path / "same") == ("old", True)
        moved = line | {"config": line["config"] | {"init_from": "runs/old/base", "init_skip": ["head/.*"]}}
        config = tiny({"steps": 4, "init_from": str(tmp_path / "moved/base"), "init_skip": ["head/.*"]})
        assert run(config, moved, tmp_path / "moved") == ("old", True)  # the study's own base, in another workdir
        assert not trained and not caplog.records
        changed = {"steps": 4, "optimizer.learning_rate": 0.5}
        assert run(tiny(changed), line, tmp_path / "other") == ("new", False)
        assert run(tiny({"steps": 4}), line | {"records": {RECORD: {"steps": 2}}}, tmp_path / "short") == ("new", False)
        line.pop("config")
        assert run(tiny({"steps": 4}), line, tmp_path / "unknown") == ("new", False)
    assert trained == ["a"] * 3 and not (tmp_path / "other/a/metrics.jsonl").exists()
    assert (tmp_path / "other/a/metrics.jsonl.replaced").read_text() == '{"step": 4}\n'
    assert json.loads((tmp_path / "other/a" / f"{RECORD}.replaced").read_text())["figures"] == "old"
    logged = [record.getMessage() for record in caplog.records if "another run" in record.getMessage()]
    assert ["optimizer.learning_rate" in logged[0], "2 steps" in logged[1], "was not kept" in logged[2]] == [True] * 3


def test_a_page_names_records_of_another_config(tiny, tmp_path):
    found = {name: {"steps": 4} for name in "abc"}
    for name, changes in {"a": {}, "b": {"seed": 7}}.items():
        run_config.keep(tiny({"steps": 4, **changes}), str(tmp_path / name))
    given = dict(config=lambda entry: tiny({"steps": 8, "seed": 0}))
    marked = records.with_differences(found, entries("a", "b", "c", "d"), workdir=str(tmp_path), **given)
    assert marked == found | {"b": {"steps": 4, "differs": "seed=7, not 0"}}
    record = marked["b"] | {"arguments": {"seed": 7}, "config": "c.py", "figures": {"data": "x"}}
    row = results.of_run(record | {"hardware": "h", "seconds": 1}, command_line="c")
    assert row["overrides"] == {"differs": "seed=7, not 0"}


def test_a_failed_run_does_not_stop_the_others():
    asked = []

    def run(entry):
        asked.append(entry.name)
        if entry.name == "b":
            raise errors.DataError("no data")
        if entry.name == "c":
            raise KeyError("x")

    assert study.run_all(entries("a", "b", "c", "d"), run) == {"b": "DataError: no data", "c": "KeyError: 'x'"}
    assert asked == ["a", "b", "c", "d"]

    def stopped(entry):
        raise study.Interrupted(entry.name)

    with pytest.raises(study.Interrupted, match="a"):
        study.run_all(entries("a", "b"), stopped)


def test_compiled_functions_are_kept_for_other_seeds_of_a_setting_alone(monkeypatch):
    """Settings may differ in their arguments, with the same config file and arguments of that."""
    cleared = []
    monkeypatch.setattr(study.jax, "clear_caches", lambda: cleared.append(asked[-1]))
    runs = [(2, 0, "c.py:seed=0"), (2, 1, "c.py:seed=1"), (4, 0, "c.py:seed=0"), (4, 0, "d.py:seed=0")]
    chosen = [study.Entry(str(i), dict(layers=n, seed=seed), spec) for i, (n, seed, spec) in enumerate(runs)]
    asked = []
    study.run_all(chosen, lambda entry: asked.append(entry.name))
    assert cleared == ["1", "2", "3"]


def test_a_page_needs_figures(tmp_path):
    chosen = [study.Entry("a", {}, "config.py"), study.Entry("b", {}, "config.py")]
    for workdir in (tmp_path, tmp_path / "not_there"):
        for trained, why in ((True, "each failed, as said above"), (False, "--report_only trains none")):
            with pytest.raises(errors.DataError, match=f"none of the 2 runs of {workdir} has a record: {why}"):
                study.collect(workdir, chosen, record="eval/study.json", trained=trained)
    study.write_record(tmp_path / "b", {"figures": {}}, record="eval/study.json")
    records, missing = study.collect(tmp_path, chosen, record="eval/study.json")
    folders = study.folders(tmp_path)
    assert (list(records), list(folders), missing) == (["b"], ["b"], ["a"])
    for name in ("a", "c"):
        study.write_record(tmp_path / name, {"figures": {}}, record="eval/study.json")
    records, missing = study.collect(tmp_path, entries("b", "d", "a"), record="eval/study.json")
    assert (list(records), missing) == (["b", "a", "c"], ["d"])  # in the order of the study; others come last


def test_the_time_of_a_run(tmp_path):
    rows = [{"step": 1, "time": 2.5}, {"step": 2, "time": 4.0}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert study.seconds(tmp_path) == 4.0
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(errors.DataError, match="has no rows"):
        study.seconds(tmp_path)


def test_the_program_writes_the_page_of_what_there_is(tmp_path, monkeypatch, capsys):
    out, workdir = tmp_path / "out", tmp_path / "runs"
    given = dict(workdir=str(workdir), out=str(out), only="", index=-1, report_only=False, records=None)
    values = types.SimpleNamespace(**given)
    monkeypatch.setattr(flags, "FLAGS", values)
    monkeypatch.setattr(study.jax.config, "update", lambda *_: None)
    written = []

    def run(entry, workdir):
        if entry.name == "b":
            raise errors.DataError("no data")
        study.write_record(os.path.join(workdir, entry.name), {"figures": entry.arguments}, record=RECORD)

    def write(out, found, *, missing, command_line):
        written.append((out, found, missing))
        return ["README.md"]

    with pytest.raises(SystemExit, match="1"):
        study.main(entries("a", "b"), run, write=write, record=RECORD)
    assert written == [(str(out), {"a": {"figures": {"seed": 0}}}, ["b"])]
    assert "failed: b: DataError: no data" in capsys.readouterr().err
    assert list(records.load(out / records.NAME)) == ["a"]
    # The file of records alone makes the page again, without a folder of runs.
    values.workdir, values.report_only = None, True
    study._with_records(lambda: study.main(entries("a", "b"), None, write=write, record=RECORD))
    assert written[1] == written[0]
    # With --only, the other runs are not missing, but those that the chosen ones need are trained.
    values.workdir, values.only, values.report_only = str(workdir), "^b$", False
    trained = []

    def train(entry, workdir):
        trained.append(entry.name)

    def needs(chosen, found):
        return [found[0], *chosen]

    study.main(entries("a", "b", "c"), train, write=write, record=RECORD, needs=needs)
    assert trained == ["a", "b"] and written[2] == (str(out), written[0][1], ["b"])
    values.index = 0
    study.main(entries("a", "b", "c"), train, write=write, record=RECORD, needs=needs)
    assert trained == ["a", "b", "b"] and len(written) == 3
    values.workdir, values.out, values.index = None, "", -1
    with pytest.raises(errors.ConfigError, match="--workdir is missing"):
        study._with_records(None)


def test_a_study_does_not_stretch_the_schedule_of_an_unfinished_run(tiny, trained, tmp_path):
    cosine = {"optimizer.schedule": {"name": "cosine"}}
    (entry,) = entries("stopped")
    given = dict(measure=lambda *_: {}, record=RECORD)
    with pytest.raises(study.Interrupted):
        study.run(entry, str(tmp_path), config=tiny({"steps": 4, **cosine}), **given)
    with pytest.raises(errors.ConfigError, match="steps=8: the cosine schedule .* is one for steps=4"):
        study.run(entry, str(tmp_path), config=tiny({"steps": 8, **cosine}), **given)
    with pytest.raises(study.Interrupted):
        study.run(entry, str(tmp_path), config=tiny({"steps": 4, **cosine}), **given)
