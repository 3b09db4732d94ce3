"""From a messy table to a run with a report, by the commands of docs/classify.md."""

import csv
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

import lwt
from lwt import errors, extras
from lwt.classify import baseline, run, table
from studies.data import tickets

ROOT = pathlib.Path(__file__).parents[2]
MORE = ("--epochs=1", "--merge_labels", "--rename_labels=Biling:Billing", "--min_rows=3")  # to what the page says
OPTIONS = run.Options(
    text="text", label="category", epochs=1, merge_labels=True, rename_labels=("Biling:Billing",), min_rows=3
)
WORKDIR = "runs/tickets"


def of_page(begin, *, folder, cache, more=()):
    """Runs the one command of the page that begins so, in a folder; returns its lines on standard output."""
    page = (ROOT / "docs/classify.md").read_text(encoding="utf-8")
    command = next(line.split(" #")[0] for line in re.findall(r"^    (lwt .+)$", page, re.MULTILINE) if begin in line)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_COMPILATION_CACHE_DIR": cache}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command), *more],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory, cache):
    """``(folder, what is wrong with its table tickets.csv, figures, lines that were printed)``."""
    folder = tmp_path_factory.mktemp("classify")
    wrong = tickets.write(folder / "tickets.csv", 400)
    command = "lwt classify tickets.csv --text=text --label=category"
    lines = of_page(command, folder=folder, cache=cache, more=MORE)
    return folder, wrong, json.loads(lines[-1]), lines


@pytest.fixture
def inside(made, monkeypatch):
    """The folder, as the current one."""
    monkeypatch.chdir(made[0])
    return made[0]


def again(**changes):
    """The same call from Python; returns its figures and lines."""
    lines, options = [], run.Options(**{**OPTIONS.__dict__, **changes})
    return run.classify("tickets.csv", options=options, say=lines.append), lines


def test_the_figures_and_the_report(made):
    folder, wrong, figures, lines = made
    workdir = folder / WORKDIR
    assert figures["rows"] == 400 and figures["classes"] == 12 and json.dumps(figures)
    for kind in ("malformed", "no text", "no label", "contradictory", "repeated", "nearly repeated"):
        assert figures["left_out"][kind] == wrong[kind], kind
    used = sum(figures[part] for part in ("train", "validation", "test"))
    assert used == 400 - sum(figures["left_out"].values())
    linear, model = figures["models"]
    assert linear["model"] == baseline.NAME and linear["accuracy"] > 0.8
    assert model["model"] == "embbert" and model["parameters"] > 350_000 and model["bytes"] == 4 * model["parameters"]
    assert 0 <= model["ece"] <= 1 and -1 <= model["mcc"] <= 1 and model["seconds"] > 0
    page = (workdir / "classify/report.md").read_text(encoding="utf-8")
    for part in ("## Figures", "## The table", "## Classes", "## Confusion matrix", "## The worst errors", "## Next"):
        assert part in page
    assert "../eval/test.confusion.png" in page and (workdir / "eval/test.confusion.png").exists()
    assert any("so that no figure covers them" in line for line in lines) is False  # --min_rows=3 left those out
    assert lines[-4].startswith("  lwt predict new.csv") and all("lwt export" in line for line in lines[-3:-1])


def test_every_row_that_is_left_out_is_listed(made):
    folder, _, figures, _ = made
    with open(folder / WORKDIR / "classify/left_out.csv", encoding="utf-8-sig", newline="") as file:
        listed = list(csv.DictReader(file))
    assert len(listed) == sum(figures["left_out"].values()) and all(row["reason"] for row in listed)
    with open(folder / "tickets.csv", encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    for row in listed:
        if row["kind"] != "malformed":
            assert table[int(row["row"])][1].strip() == row["text"] or row["kind"] == "no text"
            assert int(table[int(row["row"])][0]) == int(row["row"])


def test_the_errors_are_those_of_the_run(made):
    folder, _, figures, _ = made
    workdir = folder / WORKDIR
    with open(workdir / "classify/errors.csv", encoding="utf-8-sig", newline="") as file:
        wrong = list(csv.DictReader(file))
    assert len(wrong) == round((1 - figures["models"][1]["accuracy"]) * figures["test"])
    assert [float(row["score"]) for row in wrong] == sorted((float(row["score"]) for row in wrong), reverse=True)
    experiment = lwt.load(workdir)
    assert experiment.predict([row["text"] for row in wrong[:5]]) == [row["prediction"] for row in wrong[:5]]
    recorded = json.loads((workdir / "eval/test.json").read_text())
    assert recorded["accuracy"] == figures["models"][1]["accuracy"] and recorded["records"] == figures["test"]


def test_the_same_call_continues_and_another_is_refused(made, inside):
    _, _, figures, _ = made
    origin = json.loads((inside / WORKDIR / "origin.json").read_text())
    assert origin["method"] == "ngrams" and lwt.load(WORKDIR).model.ngram_weights
    before = (inside / WORKDIR / "classify/network/metrics.jsonl").read_bytes()
    found, _ = again()
    assert (inside / WORKDIR / "classify/network/metrics.jsonl").read_bytes() == before
    assert found["left_out"] == figures["left_out"] and found["models"][1] == figures["models"][1]
    with pytest.raises(errors.ConfigError, match="was begun with seed=0, not 1: give another folder"):
        again(seed=1)
    (inside / "labels.txt").write_text("one\ntwo\n")
    with pytest.raises(errors.ConfigError, match="was begun with files='another content'"):
        again()
    (inside / "labels.txt").unlink()


def test_the_ngrams_of_a_base_are_replaced(inside):
    options = run.Options(**{**OPTIONS.__dict__, "base": WORKDIR})
    found = run.classify("tickets.csv", "runs/more", options=options, say=lambda line: None)
    assert not lwt.load("runs/more/classify/network").model.ngram_weights
    assert lwt.load("runs/more").model.ngram_weights and found["models"][1]["accuracy"] > 0.5


def test_what_was_asked_may_change_until_training_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tickets.write("tickets.csv", 100)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run.fit.train, "run", stop)
    monkeypatch.setattr(baseline, "available", lambda: False)
    for merge in (False, True):
        with pytest.raises(KeyboardInterrupt):
            again(merge_labels=merge, rename_labels=(), min_rows=1)
    assert json.loads((tmp_path / WORKDIR / "classify/asked.json").read_text())["merge_labels"] is True
    (tmp_path / WORKDIR / "config.json").write_text("{}")
    with pytest.raises(errors.ConfigError, match="was begun with merge_labels=True, not False"):
        again(merge_labels=False, rename_labels=(), min_rows=1)
    (tmp_path / WORKDIR / "classify/asked.json").unlink()
    with pytest.raises(errors.ConfigError, match="--out=runs/tickets holds another run"):
        again(merge_labels=True, rename_labels=(), min_rows=1)


def test_a_search_may_get_more_time_until_it_is_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tickets.write("tickets.csv", 100)
    options = run.Options(time="1m")
    folder = tmp_path / WORKDIR / "classify"
    found = table.read(table.find("tickets.csv"))
    run.keep(folder, found, options=options)
    (folder / "trials").mkdir()
    run.keep(folder, found, options=run.Options(time="10m"))
    with pytest.raises(errors.ConfigError, match="was begun with search=True, not False"):
        run.keep(folder, found, options=run.Options())
    (folder / "network").mkdir()
    (folder / "network/config.json").write_text("{}")
    with pytest.raises(errors.ConfigError, match="was begun with time='10m', not '1m': give another folder"):
        run.keep(folder, found, options=options)
    run.keep(folder, table.read(table.find(tmp_path / "tickets.csv")), options=run.Options(time="10m"))


def test_a_table_in_another_script_is_learned_from_scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{'хорошо плохо'.split()[i % 2]} {i},{i % 2}" for i in range(60)]
    pathlib.Path("table.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    for model, name in (("", "embedder"), ("embbert", "embbert")):
        lines, options = [], run.Options(model=model, epochs=1)
        run.classify("table.csv", f"runs/{name}", options=options, say=lines.append)
        assert any(line.startswith(f"\n3/4  {name}, from ") for line in lines)
        assert any(f"{'--model=embbert' if name == 'embedder' else '--model=embedder'} " in line for line in lines)


def test_what_was_left_out_is_said_before_an_error_that_follows_from_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("tickets.csv").write_text("text,label\n" + "".join(f"ticket {i},\n" for i in range(30)))
    lines = []
    with pytest.raises(errors.DataError, match="no row is left to use"):
        run.classify("tickets.csv", say=lines.append)
    assert "  Left out: 30 rows without a label." in lines
    assert (
        pathlib.Path("runs/tickets/classify/left_out.csv").read_text(encoding="utf-8-sig").count(",there is no label,")
        == 30
    )


def test_without_scikit_learn_the_rest_goes_on(inside, monkeypatch):
    monkeypatch.setattr(baseline, "available", lambda: False)
    found, lines = again()
    assert [model["model"] for model in found["models"]] == ["embbert"]
    assert any(extras.install("sklearn") in line for line in lines)


def test_a_table_comes_back_with_answers(made, cache):
    folder = made[0]
    tickets.write_new(folder / "new.csv", 100)
    of_page("lwt predict", folder=folder, cache=cache)
    with open(folder / "answers.csv", encoding="utf-8", newline="") as file:
        answers = list(csv.DictReader(file))
    with open(folder / "new.csv", encoding="utf-8", newline="") as file:
        assert [{key: row[key] for key in ("id", "text")} for row in answers] == list(csv.DictReader(file))
    for row in answers:
        scores = {name.removeprefix("score_"): float(row[name]) for name in row if name.startswith("score_")}
        assert len(scores) == 12 and sum(scores.values()) == pytest.approx(1, abs=1e-4)
        assert row["prediction"] == (max(scores, key=scores.get) if float(row["score"]) >= 0.8 else "")


def test_options_are_checked_before_anything_is_read(tmp_path):
    for options, message in (
        (dict(time="ten"), "--time=ten should be a number of seconds, minutes or hours"),
        (dict(model="embbertt"), "--model=embbertt: there is no such model"),
        (dict(base="nowhere"), "--base=nowhere: there is no such model"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            run.classify(tmp_path / "none.csv", tmp_path / "run", options=run.Options(**options))
    with pytest.raises(errors.ConfigError, match="none of the characters"):
        run.classify(tmp_path / "none.csv", tmp_path / "a,b")
    with pytest.raises(errors.ConfigError, match="--rename_labels=x: expected OLD:NEW"):
        run.renames(["x"])
    assert run.renames([" a : b  c"]) == {"a": "b c"} and run.seconds_of("1.5m") == 90 and run.seconds_of("") == 0
    assert str(run.default_workdir("a/My tickets.csv.gz")) == "runs/My-tickets"
