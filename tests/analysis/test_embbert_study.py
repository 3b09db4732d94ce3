"""The EmbBERT-Q study: a tiny one from end to end, and the page of records that are made up."""

import csv
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import pytest

import lwt
from lwt import errors
from lwt.analysis import (
    config_files,
    embbert_memory,
    embbert_paper,
    embbert_report,
    embbert_scores,
    embbert_study,
    results,
    study,
)
from lwt.export import bundle, quantize
from lwt.metrics import glue
from lwt.training import hardware, run_config

ROOT = pathlib.Path(__file__).parent.parent.parent
WORDS = "cold old bold warm long dark young slow great small".split()
PAIRS = ("test_matched", "test_mismatched")


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


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
            kept = rows[: 48 if i == 0 else 10 + i]
            (root / folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    return root


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
        [sys.executable, "-m", "lwt.analysis.embbert_study", *arguments],
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
    assert "BERT(2MB) was pre-trained on `folder:english_novels_lm`: 2 steps" in page
    assert "Not in the figures: rte-embedder-scratch-seed0." in page
    written = {path.name for path in (finished / "runs" / "report").iterdir()}
    assert written == {*embbert_report.FILES, embbert_report.CURVES}


def test_the_figures_are_those_of_the_checkpoint_and_of_the_file(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    folder = finished / "runs" / "snips-bert_2mb-pretrained-seed0"
    record, opened = study.read_record(folder, embbert_study.RECORD), lwt.load(str(folder))
    forms = {"float32": opened, "8-bit": quantize.load(opened, str(folder / embbert_study.ARTEFACT))}
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
    study.write_record(str(tmp_path / "base-bert_2mb"), embbert_study.RECORD, record)
    monkeypatch.setattr(study, "experiment", None)
    base = study.choose(found_in(tmp_path), only="^base")
    assert embbert_study.run(base[0], str(tmp_path)) == record


def test_a_pupil_learns_from_the_pretrained_seeds(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    workdir = str(finished / "runs")

    def taught():
        found = embbert_study.entries(workdir, models=("bert_2mb",), starts=("taught",), seeds=1, more="smoke=true")
        return study.choose(found, only="^snips.*taught")[0]

    monkeypatch.setattr(embbert_study, "TEACHERS", 1)
    record = embbert_study.run(taught(), workdir)
    assert record["arguments"]["start"] == "taught" and record["steps"] == 2
    task = run_config.read(os.path.join(workdir, taught().name)).task
    assert (task.name, task.teacher) == ("distill", f"{workdir}/snips-bert_2mb-pretrained-seed0")
    monkeypatch.setattr(embbert_study, "TEACHERS", 2)
    with pytest.raises(errors.ConfigError, match="snips-bert_2mb-pretrained-seed1 is not there or not finished"):
        embbert_study.run(taught(), workdir)


def test_what_is_done_is_left_alone(finished, data, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    monkeypatch.setattr(study, "experiment", None)
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
    with pytest.raises(errors.ConfigError, match="base-embbert is not there or not finished: --only='.base-embbert.'"):
        embbert_study.run(other[0], str(finished / "none"))


def test_a_base_of_one_s_own(finished, tmp_path, monkeypatch):
    """It keeps its own config, and is not trained again."""
    monkeypatch.setattr(study, "experiment", None)
    own = tmp_path / "base-bert_2mb"
    shutil.copytree(finished / "runs" / own.name, own)
    (own / embbert_study.RECORD).unlink()
    entry = embbert_study.entries(str(tmp_path), models=("bert_2mb",), more="precision=float32")[0]
    record = embbert_study.run(entry, str(tmp_path))
    assert (record["config"], record["hardware"]) == (f"{own}/config.json", hardware.describe())
    assert run_config.read(own).precision == "bfloat16" and record["steps"] == 2


def test_epochs_are_counted_once(data, tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(data))
    config = config_files.load(f"{embbert_study.FINETUNE}:model=embedder,task=snips,epochs=4")
    assert study.steps_of(config, str(tmp_path)) == 4 * 48 / 32
    monkeypatch.setenv("LWT_DATA", str(tmp_path))  # no data there
    assert study.steps_of(config, str(tmp_path), {"epochs": 4.0, "steps": 7}) == 7
    assert config_files.load(f"{embbert_study.FINETUNE}:model=embedder").epochs == 20


def test_entries():
    found = embbert_study.entries("runs/x", seeds=2, starts=embbert_study.STARTS, more="rate=0.1,precision=bfloat16")
    names = [entry.name for entry in found]
    pretrained = set(embbert_paper.MODELS) - set(embbert_paper.FROM_SCRATCH)
    own = ("", "-glue", *(f"-{task}" for task in config_files.module(embbert_study.FINETUNE).TINYNLP))
    bases = [f"base-{model}{texts}" for model in pretrained for texts in own]
    teachers = 16 * 7  # of the third seed
    assert len(set(names)) == len(names) == len(bases) + 2 * 16 * (4 * 7 + 2) + teachers
    assert {*names[: len(bases)]} == {*bases}
    assert found[names.index("base-bert_ea")].spec == "configs/embbert_pretrain.py:model=bert_ea,precision=bfloat16"
    tuned = found[names.index("rte-bert_ea-pretrained-seed1")].spec.partition(":")[2]
    assert tuned == "base=runs/x/base-bert_ea,model=bert_ea,task=rte,seed=1,rate=0.1,precision=bfloat16"
    assert "base=" not in found[names.index("rte-bert_ea-scratch-seed1")].spec
    assert "snips-embedder-pretrained-seed0" not in names
    further = embbert_study.entries(
        "runs/x", seeds=1, models=("embbert", "embedder"), starts=("further",), more="rate=0.1"
    )
    specs = {entry.name: entry.spec.partition(":")[2] for entry in further}
    assert list(specs)[:2] == ["base-embbert", "base-embbert-imdb_reviews"] and len(specs) == 1 + 7 + 1 + 2 * 16
    assert specs["base-embbert-nlu"] == "model=embbert,data=folder:nlu,base=runs/x/base-embbert"
    assert specs["base-embbert-glue"] == "model=embbert,data=glue,base=runs/x/base-embbert"
    assert specs["rte-embbert-further-seed0"].startswith("base=runs/x/base-embbert-glue,model=embbert,task=rte,")
    assert specs["nlu-embbert-further-seed0"].startswith("base=runs/x/base-embbert-nlu,")
    chosen = study.choose(further, only="^nlu-embbert")
    needed = ["base-embbert", "base-embbert-nlu", "nlu-embbert-further-seed0"]
    assert [entry.name for entry in embbert_study.with_needs(chosen, further)] == needed
    chosen = study.choose(further, only="^base-embbert-nlu")
    assert [entry.name for entry in embbert_study.with_needs(chosen, further)] == needed[:2]
    taught = embbert_study.entries("runs/x", seeds=1, models=("embbert",), starts=("taught",), suite="tinynlp")
    chosen = study.choose(taught, only="^nlu-embbert-taught")
    teachers = [f"nlu-embbert-pretrained-seed{seed}" for seed in range(3)]
    needed = ["base-embbert", *teachers, "nlu-embbert-taught-seed0"]
    assert [entry.name for entry in embbert_study.with_needs(chosen, taught)] == needed
    assert chosen[0].spec.endswith("task=nlu,seed=0,teacher=" + "+".join(f"runs/x/{name}" for name in teachers))
    wrong = (dict(suite="blue"), dict(models=["embert"]), dict(starts=["x"]), dict(more="rate=1,task=rte"))
    for flag, given in zip(("suite", "models", "starts", "more"), wrong):
        with pytest.raises(errors.ConfigError, match=f"--{flag}="):
            embbert_study.entries("runs/x", **given)


def test_the_paper_s_tables():
    assert tuple(embbert_paper.GLUE) == tuple(glue.COLUMNS)
    for table in embbert_paper.TABLES.values():
        for row in table.rows.values():
            assert statistics.fmean(row[column] for column in table.columns) == pytest.approx(row["average"], abs=0.011)
    counts = {title: cost.weights for title, cost in embbert_memory.ablations().items()}
    counted = {line[0]: line[2] for line in embbert_report.memory_table([])[1]}
    assert counted["EmbBERT"] == 357_248 and counted["BERT-Tiny"] == 4_385_920
    assert all(0 <= counted[title] - weights < 0.02 * weights for title, weights in counts.items())


def record_of(task, model, start, seed, value):
    parts = PAIRS if task == "mnli" else ("test",)
    figures = dict.fromkeys(embbert_scores.METRICS, value)
    forms = {
        form: {part: {m: v - 0.001 * (form == "8-bit") for m, v in figures.items()} for part in parts}
        for form in ("float32", "8-bit")
    }
    counts = {"train": 100, "validation": 10, **dict.fromkeys(parts, 20), **{f"{part} in train": 1 for part in parts}}
    return {
        "arguments": {"task": task, "model": model, "start": start, "seed": seed},
        "config": f"configs/embbert_finetune.py:task={task}",
        "steps": 9, "epochs": 10.0, "figures": forms, "bytes": 390_000 + 100 * seed, "rule": "i", "records": counts,
        "learning_rate": 3e-4, "seconds": 60.0, "hardware": "nothing",
    }  # fmt: skip


def test_the_page_says_where_a_pre_training_began():
    record = {
        **{"arguments": {"model": "embbert"}, "data": "folder:snips", "init_from": "runs/base"},
        **{"figures": {"loss": 4.5}, "seconds": 3600.0, "hardware": "nothing", "steps": 9},
    }
    for begun, expected in (("runs/base", "`folder:snips`, from `runs/base` on: 9 steps"), ("", "`folder:snips`: 9")):
        text = "".join(embbert_report.settings({"base-embbert": record | {"init_from": begun}}, {}))
        assert f"EmbBERT was pre-trained on {expected}" in text


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """EmbBERT complete for two seeds (0.8 and 0.82, but MNLI 0.5); a third without nlu; Embedder without Snips."""
    config, out = config_files.module(ROOT / "configs/embbert_finetune.py"), tmp_path_factory.mktemp("page")
    runs = [("embbert", "pretrained", task, seed) for task in config.TINYNLP + config.GLUE for seed in range(3)]
    runs += [("embedder", "scratch", task, 0) for task in config.TINYNLP if task != "snips"]
    runs += [("embbert", "further", task, 2) for task in ("snips", "nlu")]
    runs += [("embbert", "taught", "nlu", 0)]
    runs.remove(("embbert", "pretrained", "nlu", 2))
    records = {
        f"{task}-{model}-{start}-{seed}": record_of(
            task, model, start, seed, 0.5 if task == "mnli" else 0.8 + 0.02 * seed
        )
        for model, start, task, seed in runs
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        written = embbert_report.write(out, records, {}, missing=["rte-embbert-9"], command="python -m study")
    assert {path.name for path in out.iterdir()} == {*written}
    return out


def test_the_page_tells_the_figures(page):
    tables = dict(part.partition("\n")[::2] for part in (page / "README.md").read_text().split("## Table ")[1:])
    accuracy = tables["9: TinyNLP, accuracy, pre-trained"]
    ours = " | ".join([*["82.00 ± 2.00"] * 5, "81.00 ± 1.41", "82.00 ± 2.00", "81.00 ± 1.41", "2–3"])
    assert f"| EmbBERT | {ours} |" in accuracy
    assert "| EmbBERT-Q, paper | 84.01 | 90.63 | 86.60 | 74.10 | 89.90 | 94.05 | 97.93 | 88.17 |  |" in accuracy
    assert "| EmbBERT-Q | 81.90 ± 2.00 |" in accuracy and "| Embedder (8 bits) | 79.90 |" in accuracy
    assert f"| Embedder | {' | '.join(['80.00'] * 6)} | – | – | 1 |" in accuracy
    assert "Embedder: no mean without Snips." in accuracy
    assert f"| BERT + EA | {' | '.join(['–'] * 9)} |" in accuracy
    assert f"| EmbBERT, further pre-trained | {' | '.join(['–'] * 5)} | 84.00 | 84.00 | – | 1 |" in accuracy
    assert "| EmbBERT-Q, further pre-trained | –" in accuracy
    assert f"| EmbBERT-Q, taught by three of itself | {' | '.join(['–'] * 5)} | 79.90 | – | – | 1 |" in accuracy
    scratch = tables["7: TinyNLP, accuracy, not pre-trained"]
    assert f"| EmbBERT | {' | '.join(['–'] * 9)} |" in scratch and "| Embedder | 80.00 |" in scratch
    nine = statistics.fmean([*[0.82] * 8, 0.5, 0.5]), statistics.fmean([*[0.82] * 7, 0.5, 0.5]), (8 * 0.82 + 0.5) / 9
    means = " | ".join(f"{100 * mean:.2f} ± {2 * share:.2f}" for mean, share in zip(nine, (8 / 10, 7 / 9, 8 / 9)))
    assert f" | {means} | 3 |" in tables["12: GLUE, pre-trained"]
    paper = next(line for line in tables["12: GLUE, pre-trained"].splitlines() if line.startswith("| EmbBERT, paper"))
    assert paper.endswith("| 87.61 | 49.25 | 63.50 | 60.82 | – |  |")
    text = (page / "README.md").read_text()
    assert "- TinyNLP, EmbBERT: eight bits change the mean by -0.10 points (files of 390,0" in text
    assert "EmbBERT-Q 80.90 ± 1.41 (paper 88.17)" in text and "Not in the figures: rte-embbert-9." in text
    assert "| snips | 14.5k | 7 | 100 | 10 | 20 | 1 | i |" in text
    assert "| mnli | 403k | 3 | 100 | 10 | 20 + 20 | 2 | i |" in text
    assert "| EmbBERT | 357,000 | 357,248 | 131,000 | 131,072 | 781,000 | 1,953,280 | 390,0" in text


def test_the_rows_and_the_table_for_programs(page):
    rows = results.load(page / "results.json")
    mine = {"task": "nlu", "model": "embbert", "start": "pretrained", "form": "8-bit"}
    found = {row["metric"]: row["paper"] for row in rows if row["overrides"] == mine and row["seed"] == 1}
    assert found["accuracy"] == pytest.approx(0.9405) and found["mcc"] == pytest.approx(0.9336)
    assert found["f1"] is None and found["bytes"] is None
    halves = {row["split"]: row["paper"] for row in rows if row["overrides"]["task"] == "mnli" if row["paper"]}
    assert halves == pytest.approx({"test_matched": 0.6710, "test_mismatched": 0.6805})
    pair = [row for row in rows if row["overrides"]["task"] == "qqp" and row["paper"]]
    assert {row["metric"] for row in pair} == {"f1_weighted"}
    with open(page / "scores.csv", newline="") as file:
        lines = {tuple(line.values())[:4]: line for line in csv.DictReader(file)}
    line = lines["10", "embbert", "float32", "snips"]
    assert (line["metric"], line["seeds"], float(line["mean"]), float(line["paper"])) == (
        "mcc", "3", pytest.approx(0.82), pytest.approx(0.9729),
    )  # fmt: skip
    assert lines["9", "embedder", "float32", "average"]["mean"] == ""


def test_a_page_needs_figures(tmp_path):
    chosen = [study.Entry("a", {}, "config.py"), study.Entry("b", {}, "config.py")]
    for workdir in (tmp_path, tmp_path / "not_there"):
        with pytest.raises(errors.DataError, match="none of the 2 runs"):
            study.collect(workdir, chosen, "eval/study.json")
    study.write_record(tmp_path / "b", "eval/study.json", {"figures": {}})
    records, missing = study.collect(tmp_path, chosen, "eval/study.json")
    folders = study.folders(tmp_path)
    assert (list(records), list(folders), missing) == (["b"], ["b"], ["a"])
