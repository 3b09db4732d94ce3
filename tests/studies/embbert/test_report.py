"""The page of the EmbBERT-Q study, of records that are made up, and the paper's tables that stand in it."""

import csv
import pathlib
import re
import statistics

import pytest

from lwt.report import results
from lwt.runs import config_file
from studies.embbert import glue, memory, report, scores
from studies.embbert import paper as embbert_paper

ROOT = pathlib.Path(__file__).parents[3]
PAIRS = ("test_matched", "test_mismatched")


def test_the_paper_s_tables():
    assert tuple(embbert_paper.GLUE) == tuple(glue.COLUMNS)
    for table in embbert_paper.TABLES.values():
        for row in table.rows.values():
            assert statistics.fmean(row[column] for column in table.columns) == pytest.approx(row["average"], abs=0.011)
    counts = {title: cost.weights for title, cost in memory.ablations().items()}
    counted = {line[0]: line[2] for line in report.memory_table([])[1]}
    assert counted["EmbBERT"] == 357_248 and counted["BERT-Tiny"] == 4_385_920
    assert all(0 <= counted[title] - weights < 0.02 * weights for title, weights in counts.items())


def record_of(texts, model, start, seed, value):
    """`texts` is a task, or one on the splits of the code: "snips-code"."""
    task, *splits = texts.split("-")
    parts = PAIRS if task == "mnli" else ("test",)
    figures = dict.fromkeys(scores.METRICS, value)
    forms = {
        form: {part: {m: v - 0.001 * (form == "8-bit") for m, v in figures.items()} for part in parts}
        for form in ("float32", "8-bit")
    }
    counts = {"train": 100, "validation": 10, **dict.fromkeys(parts, 20), **{f"{part} in train": 1 for part in parts}}
    return {
        "arguments": {"task": task, "model": model, "start": start, "seed": seed} | dict(zip(["splits"], splits)),
        "config": f"configs/embbert_finetune.py:task={task}",
        "steps": 9, "epochs": 10.0, "figures": forms, "bytes": 390_000 + 100 * seed, "rule": "i", "records": counts,
        "learning_rate": 3e-4, "seconds": 60.0, "hardware": "nothing",
    }  # fmt: skip


def test_the_page_says_where_a_pre_training_began():
    record = {
        **{"arguments": {"model": "embbert"}, "data": "folder:snips", "init_from": "runs/base"},
        **{"figures": {"mlm_loss": 4.5}, "seconds": 3600.0, "hardware": "nothing", "steps": 9},
    }
    for begun, data, expected in (("runs/base", "snips", "runs/base"), ("", "snips and 1 more", "–")):
        given = record | {"init_from": begun, "data": "folder:snips" + "+folder:nlu" * ("more" in data)}
        _, lines = report.pre_trainings({"base-embbert": given})
        assert lines == [["EmbBERT", data, expected, "9", "4.50", "1.0 hours", "nothing"]]
    by_paper = record | {"arguments": {"model": "embbert", "recipe": "paper"}}
    assert report.pre_trainings({"base": by_paper})[1][0][0] == "EmbBERT, by the paper's recipe"
    small = record | {"arguments": {"model": "embbert", "tables": "small"}}
    assert report.pre_trainings({"base": small})[1][0][0] == "EmbBERT, from small initial tables"


MISSING = ["rte-embbert-pretrained-seed9", "rte-bert_2mb-pretrained-seed0"]  # of the second no seed has a record


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """EmbBERT complete for two seeds (0.8 and 0.82, but MNLI 0.5); a third without nlu; Embedder without Snips."""
    config, out = config_file.module(ROOT / "configs/embbert_finetune.py"), tmp_path_factory.mktemp("page")
    runs = [("embbert", "pretrained", task, seed) for task in config.TINYNLP + config.GLUE for seed in range(3)]
    runs += [("embedder", "scratch", task, 0) for task in config.TINYNLP if task != "snips"]
    runs += [("embbert", "further", task, 2) for task in ("snips", "nlu")]
    runs += [("embbert", start, "nlu", 0) for start in ("taught", "ngrams", "small", "small_pretrained")]
    runs += [("embedder", "small", "nlu", 0)]
    runs += [("embbert", "pretrained", "snips-code", seed) for seed in range(2)]
    runs.remove(("embbert", "pretrained", "nlu", 2))
    records = {
        f"{task}-{model}-{start}-seed{seed}": record_of(
            task, model, start, seed, 0.5 if task == "mnli" else (0.3 if "-code" in task else 0.8) + 0.02 * seed
        )
        for model, start, task, seed in runs
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        written = report.write(out, records, workdir="", missing=MISSING, command_line="python -m study")
    assert {path.name for path in out.iterdir()} == {*written}
    return out


def test_the_page_tells_the_figures(page):
    parts = re.split("##+ Table ", (page / "README.md").read_text())[1:]
    tables = dict(part.partition("\n")[::2] for part in parts)
    accuracy = tables["9: TinyNLP, accuracy, pre-trained"]
    ours = " | ".join([*["82.00 ± 2.00"] * 5, "81.00 ± 1.41", "82.00 ± 2.00", "81.00 ± 1.41", "2–3"])
    assert f"| EmbBERT | {ours} |" in accuracy
    assert "| EmbBERT-Q, paper | 84.01 | 90.63 | 86.60 | 74.10 | 89.90 | 94.05 | 97.93 | 88.17 |  |" in accuracy
    assert "| EmbBERT-Q | 81.90 ± 2.00 |" in accuracy and "| Embedder (8 bits) | 79.90 |" in accuracy
    assert f"| Embedder | {' | '.join(['80.00'] * 6)} | – | – | 1 |" in accuracy
    assert "| BERT + EA" not in accuracy and "Not measured: BERT(2MB), MAMBA(2MB)," in accuracy
    assert f"| EmbBERT, further pre-trained | {' | '.join(['–'] * 5)} | 84.00 | 84.00 | – | 1 |" in accuracy
    assert "| EmbBERT-Q, further pre-trained | –" in accuracy
    assert f"| EmbBERT-Q, taught by three of itself | {' | '.join(['–'] * 5)} | 79.90 | – | – | 1 |" in accuracy
    assert f"| EmbBERT-Q, with n-grams | {' | '.join(['–'] * 5)} | 79.90 | – | – | 1 |" in accuracy
    for name in ("EmbBERT-Q", "Embedder"):
        line = f"| {name}, small initial tables, not pre-trained | {' | '.join(['–'] * 5)} | "
        assert line + ("79.90" if name == "EmbBERT-Q" else "80.00") + " | – | – | 1 |" in accuracy
    line = f"| EmbBERT, from small initial tables | {' | '.join(['–'] * 5)} | 80.00 | – | – | 1 |"
    assert line in accuracy
    assert (page / "README.md").read_text().count("Small initial tables have a standard deviation of 0.02") == 1
    assert "| EmbBERT, with n-grams | – | – | – | – | – | – | 390,000 | 652,144 |" in tables["2: memory"]
    code = (page / "README.md").read_text().split("## The splits of the authors' code")[1].partition("## Tables")[0]
    assert "2 fine-tunings" in code and code.count("| EmbBERT-Q, paper | 97.93 |  |") == 1
    assert "| EmbBERT | 31.00 ± 1.41 | 2 |" in code and "Emotion" not in code.partition("###")[2]
    assert "| snips | 14.5k | 7 | 100 | 10 | 20 | 1 | i |" in code
    scratch = tables["7: TinyNLP, accuracy, not pre-trained"]
    assert "| EmbBERT" not in scratch and "| Embedder | 80.00 |" in scratch
    nine = statistics.fmean([*[0.82] * 8, 0.5, 0.5]), statistics.fmean([*[0.82] * 7, 0.5, 0.5]), (8 * 0.82 + 0.5) / 9
    means = " | ".join(f"{100 * mean:.2f} ± {2 * share:.2f}" for mean, share in zip(nine, (8 / 10, 7 / 9, 8 / 9)))
    assert f" | {means} | 3 |" in tables["12: GLUE, pre-trained"]
    paper = next(line for line in tables["12: GLUE, pre-trained"].splitlines() if line.startswith("| EmbBERT, paper"))
    assert paper.endswith("| 87.61 | 49.25 | 63.50 | 60.82 | – |  |")
    text = (page / "README.md").read_text()
    means = text.split("## The means")[1]
    assert "| EmbBERT | 81.00 ± 1.41 | -0.10 | 87.19; 88.17 in 8 bits | " in means and "| Embedder" not in means[:500]
    assert "- Not in the figures: rte-embbert-pretrained-seed9.\n" in text
    assert "- Further settings of the command, without a run: 1.\n" in text
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
        lines = {tuple(line.values())[:5]: line for line in csv.DictReader(file)}
    assert lines["10", "code", "embbert", "float32", "snips"]["seeds"] == "2"
    line = lines["10", "own", "embbert", "float32", "snips"]
    assert (line["metric"], line["seeds"], float(line["mean"]), float(line["paper"])) == (
        "mcc", "3", pytest.approx(0.82), pytest.approx(0.9729),
    )  # fmt: skip
    assert lines["9", "own", "embedder", "float32", "average"]["mean"] == ""
