"""The EmbBERT-Q study, a tiny one from end to end. Its runs: test_study_entries.py; its page: test_report.py."""

import functools
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import lwt
from lwt import errors
from lwt.export import bundle
from lwt.machine import hardware
from lwt.report import study
from lwt.runs import config_file, run_config
from studies.embbert import labelled, report, starts
from studies.embbert import study as embbert_study

ROOT = pathlib.Path(__file__).parents[3]
WORDS = "cold old bold warm long dark young slow great small".split()
PAIRS = ("test_matched", "test_mismatched")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Running text, texts in two classes, and pairs of texts with two test sets."""
    root = tmp_path_factory.mktemp("data")
    lines = [f"the {w} was {w}er than a {WORDS[i % 7]} one" + "\n" * (i % 9 == 8) for i, w in enumerate(WORDS * 12)]
    text = "\n".join(lines)
    for folder in ("english_novels_lm", "snips", "glue_mnli"):
        (root / folder).mkdir()
    for split in ("train", "validation"):
        (root / "english_novels_lm" / f"{split}.txt").write_text(text)
    texts = [{"text": f"{w} {WORDS[i % 7]}", "label": WORDS[i % 2]} for i, w in enumerate(WORDS * 6)]
    pairs = [{"premise": w, "hypothesis": WORDS[i % 7], "label": WORDS[i % 3]} for i, w in enumerate(WORDS * 6)]
    for folder, rows, tests in (("snips", texts, ("test",)), ("glue_mnli", pairs, PAIRS)):
        for i, split in enumerate(("train", "validation", *tests)):
            kept = [own_of(split, row) for row in rows[: 10 + i]] if i else rows[:48]
            (root / folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    return root


def own_of(split, row):
    """A record whose first text no other split has."""
    first = next(iter(row))
    return row | {first: f"{split} {row[first]}"}


def found_in(workdir):
    return embbert_study.entries(str(workdir), models=("bert_2mb", "embedder"), seeds=1, more="smoke=true")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A study by its command; one of its runs has no data."""
    folder = tmp_path_factory.mktemp("study")
    arguments = [
        f"--workdir={folder}/runs", "--models=bert_2mb,embedder", "--seeds=1",
        "--more=smoke=true", "--only=^snips-bert|^mnli-embedder|^rte-embedder",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "studies.embbert", *arguments],
        cwd=ROOT, env=os.environ | {"LWT_DATA": str(data)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith("failed: rte-embedder-scratch-seed0: DataError: folder:glue_rte")
    return folder


def test_the_command(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    runs = {"snips-bert_2mb-pretrained-seed0": ("test",), "mnli-embedder-scratch-seed0": PAIRS}
    page = (finished / "runs" / "report" / "README.md").read_text()
    for name, parts in runs.items():
        folder = str(finished / "runs" / name)
        record = study.read_record(folder, embbert_study.RECORD)
        assert record["bytes"] == os.path.getsize(os.path.join(folder, embbert_study.ARTEFACT))
        assert tuple(record["figures"]["float32"]) == tuple(record["figures"]["8-bit"]) == parts
        first = record["figures"]["float32"][parts[0]]["accuracy"]
        assert f" {100 * first:.2f} |" in page
    assert record["records"]["train"] == 48 and record["records"]["test_mismatched"] == 13
    assert "| BERT(2MB) | english_novels_lm | – | 2 |" in page
    assert "- Further settings of the command, without a run: 1.\n" in page
    written = {path.name for path in (finished / "runs" / "report").iterdir()}
    files = "README.md results.json scores.csv".split()
    assert written == {*files, report.CURVES[""][0]}


def test_the_figures_are_those_of_the_checkpoint_and_of_the_file(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    folder = finished / "runs" / "snips-bert_2mb-pretrained-seed0"
    record, opened = study.read_record(folder, embbert_study.RECORD), lwt.load(str(folder))
    forms = {"float32": opened, "8-bit": opened.with_file(str(folder / embbert_study.ARTEFACT))}
    assert {*record["figures"]} == {*forms}
    for form, found in forms.items():
        figures = found.evaluate("test")[0]
        assert {metric: record["figures"][form]["test"][metric] for metric in figures} == pytest.approx(figures)
    written = {path.name for path in (folder / "eval").iterdir()}
    assert {"test.tsv", "test_weights=int8.safetensors.tsv"} <= written  # one does not overwrite the other


def test_a_bundle_in_the_place_of_a_base(finished, data, tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    base = str(finished / "runs" / "base-bert_2mb")
    bundle.write(lwt.load(base, checkpoint="last"), tmp_path / "base-bert_2mb")
    card = (tmp_path / "base-bert_2mb" / "README.md").read_text()
    assert "base=base-bert_2mb" in card and "predict" not in card and "test:" not in card
    record = study.read_record(base, embbert_study.RECORD)
    study.write_record(str(tmp_path / "base-bert_2mb"), record, record=embbert_study.RECORD)
    monkeypatch.setattr(study, "train", None)
    base = study.choose(found_in(tmp_path), only="^base")
    assert embbert_study.run(base[0], str(tmp_path)) == record


def test_a_pupil_learns_from_the_pretrained_seeds(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    workdir = str(finished / "runs")

    def taught():
        found = embbert_study.entries(workdir, models=("bert_2mb",), starts=("taught",), seeds=1, more="smoke=true")
        return study.choose(found, only="^snips.*taught")[0]

    monkeypatch.setattr(starts, "TEACHERS", 1)
    record = embbert_study.run(taught(), workdir)
    assert record["arguments"]["start"] == "taught" and record["steps"] == 2
    task = run_config.read(os.path.join(workdir, taught().name)).task
    assert (task.name, task.teacher) == ("distill", f"{workdir}/snips-bert_2mb-pretrained-seed0")
    monkeypatch.setattr(starts, "TEACHERS", 2)
    with pytest.raises(errors.ConfigError, match="snips-bert_2mb-pretrained-seed1 is missing or unfinished"):
        embbert_study.run(taught(), workdir)


def test_a_linear_model_is_added_to_a_finished_network(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    workdir = str(finished / "runs")
    monkeypatch.setitem(starts.STARTS, "linear", starts.Start("own", starts.NGRAMS, network="pretrained"))
    found = embbert_study.entries(workdir, models=("bert_2mb",), starts=("linear",), seeds=1, more="smoke=true")
    (entry,) = study.choose(found, only="^snips.*linear")
    network, own = (os.path.join(workdir, f"snips-bert_2mb-{start}-seed0") for start in ("pretrained", "linear"))
    needed = ["base-bert_2mb", os.path.basename(network), entry.name]
    assert [one.name for one in embbert_study.with_needs([entry], found)] == needed
    record, trained = embbert_study.run(entry, workdir), study.read_record(network, embbert_study.RECORD)
    assert record["arguments"]["start"] == "linear" and record["steps"] == trained["steps"] == 2
    assert 0 < record["seconds"] < 60 and record["hardware"] == hardware.describe()
    assert record["weights"] > trained["weights"] and record["bytes"] > trained["bytes"]
    assert record["weights_without_head"] == trained["weights_without_head"]
    assert run_config.read(own).model.ngram_weights == starts.NGRAMS["ngram_weights"]
    monkeypatch.setattr(embbert_study, "experiment", None)
    assert embbert_study.run(entry, workdir) == record
    shutil.rmtree(own)


def test_what_is_done_is_left_alone(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    monkeypatch.setattr(study, "train", None)
    monkeypatch.setattr(embbert_study, "experiment", None)
    found = found_in(finished / "runs")
    chosen = study.choose(found, only="^snips-bert")
    assert [e.name for e in embbert_study.with_needs(chosen, found)] == ["base-bert_2mb", chosen[0].name]
    run = functools.partial(embbert_study.run, workdir=str(finished / "runs"))
    assert study.run_all(embbert_study.with_needs(chosen, found), run) == {}
    own, kept = finished / "runs" / chosen[0].name, finished / "kept" / chosen[0].name
    shutil.copytree(own, kept, ignore=shutil.ignore_patterns("checkpoints"))
    record = study.read_record(str(kept), embbert_study.RECORD)
    run_here = functools.partial(study.run, measure=None, record=embbert_study.RECORD)
    assert run_here(chosen[0], str(kept.parent)) == record  # of what is kept, the record alone is needed
    (own / embbert_study.RECORD).unlink()
    assert "AttributeError" in study.run_all(chosen, run)[chosen[0].name]  # measured anew, but not trained
    other = study.choose(embbert_study.entries(str(finished / "none"), models=("embbert",), seeds=1), only="^snips")
    with pytest.raises(errors.ConfigError, match="base-embbert is missing or unfinished: --only='.base-embbert.'"):
        embbert_study.run(other[0], str(finished / "none"))


def test_a_base_of_one_s_own(finished, tmp_path, monkeypatch):
    """It keeps its own config, and is not trained again."""
    monkeypatch.setattr(study, "train", None)
    own = tmp_path / "base-bert_2mb"
    shutil.copytree(finished / "runs" / own.name, own)
    (own / embbert_study.RECORD).unlink()
    entry = embbert_study.entries(str(tmp_path), models=("bert_2mb",), more="precision=float32")[0]
    record = embbert_study.run(entry, str(tmp_path))
    assert (record["config"], record["hardware"]) == (f"{own}/config.json", hardware.describe())
    assert run_config.read(own).precision == "bfloat16" and record["steps"] == 2


def test_epochs_are_counted_once(data, tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    config = config_file.load(f"{embbert_study.FINETUNE}:model=embedder,task=snips,epochs=4")
    assert study.steps_of(config, str(tmp_path)) == 4 * 48 / 32
    monkeypatch.setenv("LWT_DATA", str(tmp_path))  # no data there
    assert study.steps_of(config, str(tmp_path), kept={"epochs": 4.0, "steps": 7}) == 7
    assert config_file.load(f"{embbert_study.FINETUNE}:model=embedder").epochs == 20


def test_a_larger_model_labels_the_training_texts(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    monkeypatch.setattr(labelled, "RECORDS", 20)
    monkeypatch.setitem(starts.STARTS, "labelled", starts.Start("own", starts.LEAK_FREE, labelled=True))
    workdir = str(finished / "runs")
    given = dict(
        models=("bert_2mb",), starts=("labelled",), seeds=1, more="smoke=true", encoder=f"{workdir}/base-bert_2mb"
    )
    found = {entry.name: entry for entry in embbert_study.entries(workdir, **given)}
    teacher, pupil = found["snips-minilm-pretrained-seed0"], found["snips-bert_2mb-labelled-seed0"]
    with pytest.raises(errors.ConfigError, match="snips-minilm-pretrained-seed0 is missing or unfinished"):
        embbert_study.run(pupil, workdir)
    embbert_study.run(teacher, workdir)
    record = embbert_study.run(pupil, workdir)
    texts = pathlib.Path(workdir, "snips-minilm-labelled", "train.jsonl.gz")
    with gzip.open(texts) as file:
        added = len(file.readlines()) - 48
    assert 0 < added <= 20 and record["records"]["train"] <= 48 + added and record["records"]["test"] == 12
    texts.unlink()
    assert embbert_study.run(pupil, workdir) == record and not texts.exists()  # a finished run needs no set
