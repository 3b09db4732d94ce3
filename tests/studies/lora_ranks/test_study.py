"""The rank study without its training: which runs there are, which are done, and what the page says."""

import csv
import functools
import json
import types

import pytest

from lwt import errors
from lwt.report import results, study
from lwt.runs import checkpoint
from studies.lora_ranks import report
from studies.lora_ranks import study as rank_study

CONFIG = "configs/lora_ranks.py"
CURVES = {("lora", "one"): (0.1, 0.5, 0.9, 0.96), ("lora", "alpha/r"): (0.0, 0.0, 0.01, 0.02)}


def record_of(arguments, accuracy):
    figures = dict.fromkeys(report.METRICS, accuracy) | {"loss": 1 - accuracy}
    return {
        "arguments": arguments,
        "config": f"{CONFIG}:base=runs/none",
        "steps": 2000,
        "learning_rate": 0.004,
        "split": "generated:arithmetic@test",
        "figures": figures,
        "parameters": {"trainable": 9216 * arguments.get("rank", 896)},
        "seconds": 200.0,
        "hardware": "nothing",
        "base": {"workdir": "runs/none", "data": "folder:a", "steps": 9, "checkpoint": 7, "figures": {"loss": 1.5}},
    }


def fake_study(workdir, *, seeds=3):
    """Run folders as training leaves them: metrics.jsonl and the record; accuracy rises by 0.01 a seed."""
    runs = [
        dict(rank=rank, method=method, scaling=scaling, seed=seed)
        for (method, scaling) in CURVES
        for rank in report.PAPER
        for seed in range(seeds)
    ]
    runs += [dict(method="full", seed=seed) for seed in range(seeds)]
    for arguments in runs:
        method = (arguments["method"], arguments.get("scaling"))
        curve = dict(zip(report.PAPER, CURVES.get(method, ())))
        folder = workdir / rank_study.name_of(arguments)
        (folder / "eval").mkdir(parents=True)
        record = record_of(arguments, curve.get(arguments.get("rank"), 0.97) + 0.01 * arguments["seed"])
        (folder / rank_study.RECORD).write_text(json.dumps(record))
        rows = [{"step": step, "time": step / 10, "validation/loss": 5 / step} for step in (500, 1000, 2000)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return study.collect(str(workdir), [], record=rank_study.RECORD)[0]


@pytest.fixture
def page(tmp_path):
    about = dict(missing=["rank64-lora-one-seed0"], command_line="python -m study --seeds=3")
    records = fake_study(tmp_path / "ranks")
    ordered = {name: records[name] for name in sorted(records, key=lambda name: "full" in name or "alpha" in name)}
    report.write(tmp_path / "out", ordered, workdir=str(tmp_path / "ranks"), **about)
    return tmp_path / "out"


def test_the_sweep_of_the_config():
    found = rank_study.entries(CONFIG, "runs/none", seeds=2, more="steps=7")
    names = [entry.name for entry in found]
    assert len(set(names)) == len(names) and {"rank16-lora-one-seed1", "rank4-lora-alpha_r-seed0", "full-seed0"} <= {
        *names
    }
    entry = found[names.index("rank16-lora-one-seed1")]
    assert entry.spec == f"{CONFIG}:base=runs/none,rank=16,method=lora,scaling=one,seed=1,steps=7"
    assert [e.name for e in study.choose(found, only="^full")] == ["full-seed0", "full-seed1"]
    assert study.choose(found, only="lora-one", index=1) == [found[1]]
    for only, index in (("rank64", -1), ("(", -1), ("^full", 2)):
        with pytest.raises(errors.ConfigError, match="--only|--index"):
            study.choose(found, only=only, index=index)
    with pytest.raises(errors.ConfigError, match="no sweep"):
        rank_study.entries("configs/translation.py", "runs/none")


def test_the_page_tells_the_figures(page):
    text = (page / "README.md").read_text()
    assert "python -m study --seeds=3" in text
    assert "Base: `runs/none`, trained on `folder:a`, checkpoint 7 of 9 steps (loss 1.5)." in text
    assert "| 16 | 147,456 / 144k | 91.0 ± 1.0 / 88 |" in text
    assert "| 4 | 36,864 / 36k | 11.0 ± 1.0 / 0.2 |" in text
    assert "| – | 8,257,536 | 98.0 ± 1.0 |" in text
    assert "rank 16 91.0 % (the paper's LoRA 88 %), rank 32 97.0 %" in text
    assert "95 % is first reached at rank 32. Elbow: rank 16 lies farthest above the chord; rank 32 is the" in text
    assert "95 % is reached at no rank. No elbow: no rank solves half of the tasks." in text
    assert "Not in the figures: rank64-lora-one-seed0." in text
    assert {path.name for path in page.iterdir()} == {
        "README.md", "results.json", "table.csv", "accuracy.png", "loss.png",
    }  # fmt: skip


def test_the_rows_and_the_table_for_programs(page):
    rows = results.load(page / "results.json")
    assert len(rows) == 27 * 6
    one = [r for r in rows if r["overrides"] == {"rank": 8, "method": "lora", "scaling": "one"} and r["seed"] == 2]
    assert {r["metric"]: (r["value"], r["paper"]) for r in one} == {
        "exact_match": (0.52, 0.42),
        "exact_match/sort_ascending": (0.52, 0.59),
        "exact_match/sort_descending": (0.52, 0.28),
        "exact_match/add_1": (0.52, 0.40),
        "exact_match/add_2": (0.52, 0.42),
        "trainable": (73_728, 72_000),
    }
    assert {r["seconds"] for r in rows} == {200.0}
    with open(page / "table.csv", newline="") as file:
        lines = {(line["method"], line["rank"], line["metric"]): line for line in csv.DictReader(file)}
    line = lines["LoRA, α = 1", "32", "exact_match"]
    assert (float(line["mean"]), line["seeds"], line["paper"]) == (pytest.approx(0.03), "3", "0.95")
    assert float(line["deviation"]) == pytest.approx(0.01)


def test_a_page_needs_records(tmp_path):
    with pytest.raises(errors.DataError, match="none of the 1 runs has a record"):
        study.collect(str(tmp_path), [study.Entry("rank4-lora-one-seed0", {}, "")], record=rank_study.RECORD)


@pytest.fixture
def stubbed(monkeypatch):
    """Training that only writes down that it was asked, and where its checkpoint stands."""
    saved, asked = {}, []

    def train(config, folder):
        asked.append(folder)
        if "rank8" in folder:
            raise errors.NotFinite("step 3: loss not finite")
        saved[folder] = 1 if "rank32" in folder and len(asked) < 5 else config.steps  # the first time it is stopped

    class Checkpoints:
        def __init__(self, folder):
            self.folder = str(folder).removesuffix("/checkpoints")

        def last_step(self):
            return saved.get(self.folder)

    def measure(entry, folder):
        return record_of(entry.arguments, 0.5)

    monkeypatch.setattr(study, "train", types.SimpleNamespace(run=train))
    monkeypatch.setattr(checkpoint, "Checkpoints", Checkpoints)
    monkeypatch.setattr(rank_study, "measure", measure)
    return asked


def test_resuming(stubbed, tmp_path):
    found = rank_study.entries(CONFIG, "runs/none", seeds=1)
    chosen = study.choose(found, only="lora-one")
    run = functools.partial(rank_study.run, workdir=str(tmp_path))
    with pytest.raises(study.Interrupted, match="rank32.*stopped before step 2000"):
        study.run_all(chosen, run)
    assert [path.rsplit("/", 1)[1] for path in stubbed] == [entry.name for entry in chosen]
    assert not (tmp_path / chosen[3].name / rank_study.RECORD).exists()
    stubbed.clear()
    stubbed.extend([""] * 4)
    failures = study.run_all(chosen, run)
    assert [path.rsplit("/", 1)[1] for path in stubbed[4:]] == [chosen[1].name, chosen[3].name]  # 4 and 16 are done
    assert failures == {chosen[1].name: "NotFinite: step 3: loss not finite"}
    other = study.choose(rank_study.entries(CONFIG, "runs/other", seeds=1), only="rank4-lora-one")
    assert "init_from='runs/none'" in study.run_all(other, run)[chosen[0].name]


def test_enough_takes_the_margin_at_its_edge():
    assert report.enough({4: 0.90, 8: 0.98, 16: 0.99, 32: 0.985}) == 8
    assert report.enough({4: 0.97, 8: 0.98, 16: 0.99}) == 8
    assert report.enough({8: 0.5}) == 8
    paper = {4: 0.002, 8: 0.42, 16: 0.88, 32: 0.95}
    assert report.enough(paper) == 32 and report.enough(paper, margin=0.08) == 16
