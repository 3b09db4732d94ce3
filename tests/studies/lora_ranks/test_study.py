"""The rank study without its training: which runs there are, the rates that they take, and what the page says."""

import csv
import math

import pytest

from lwt import errors
from lwt.report import results, search, study
from studies.lora_ranks import report, rows
from studies.lora_ranks import study as rank_study

BASE = {"workdir": "runs/none", "data": "folder:a", "steps": 9, "checkpoint": 7, "figures": {"loss": 1.5}}
ACCURACY = {
    "lora": (0.1, 0.2, 0.3, 0.5, 0.9, 0.96),
    "lora_plus": (0.2, 0.3, 0.4, 0.6, 0.9, 0.97),
    "singlora": (0.0,) * 6,
}
BEST = {"lora": 8e-3, "lora_plus": 2e-3, "singlora": 3.2e-2}  # by the losses of the fake searches


def fake_search(entry):
    """A search whose loss is 1 at the rate `BEST`, one more for each factor of 2; LoRA+ is best at ratio 4."""
    arguments = entry.arguments
    worse = abs(math.log2(arguments.get("ratio", 4) / 4))
    best, scored = BEST.get(arguments["method"], 8e-3), {}
    for _ in range(search.TRIALS):
        rate = search.following(scored)
        scored[rate] = -(1 + worse + abs(math.log2(rate / best)))
    tried = [{"rate": rate, "loss": -scored[rate]} for rate in sorted(scored)]
    return {"arguments": arguments, "config": entry.spec, "tried": tried, "rate": search.best_of(scored)}


def fake_run(entry):
    """A run with an accuracy by rank, better by 0.01 from seed to seed; LoRA+ learns twice as fast as LoRA.

    LoRA with α = 1 is better at rank 2, by 0.05.
    """
    arguments = entry.arguments
    method, rank, ratio = arguments["method"], arguments.get("rank"), arguments.get("ratio", 4)
    accuracy = dict(zip(rank_study.RANKS, ACCURACY.get(method, (0.5,) * 6))).get(rank, 0.97) + 0.01 * arguments["seed"]
    accuracy += 0.05 * (arguments.get("scaling") == "alpha/r" and rank == 2)
    plus = method == "lora_plus"
    return {
        "arguments": arguments,
        "config": entry.spec,
        "steps": 1000,
        "learning_rate": 0.004,
        "ratio": float(ratio) if plus else 0.0,
        "split": "generated:arithmetic@test",
        "figures": dict.fromkeys(rows.METRICS, accuracy),
        "parameters": {"trainable": 9216 * (rank or 896) // (2 if method == "singlora" else 1)},
        "curve": [[250, 500, 1000], [1.0, 0.2 if plus else 0.6, 0.1 if plus else 0.2]],
        "seconds": 200.0,
        "hardware": "nothing",
        "base": BASE,
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    entries = rank_study.entries("runs/none")
    found = {x.name: fake_search(x) if "stage" in x.arguments else fake_run(x) for x in entries}
    report.write(out, found, missing=["rank64-dora-seed0"], command_line="python -m study --seeds=3")
    return out


def test_searches_come_first_and_runs_by_seed():
    found = rank_study.entries("runs/none", seeds=2, more="smoke=true")
    names = [entry.name for entry in found]
    assert len(set(names)) == len(names)
    assert [name.startswith("search-") for name in names] == sorted(
        (x.startswith("search-") for x in names), reverse=True
    )
    assert {"search-rank8-dora", "search-rank8-lora_plus-ratio16", "search-full", "rank8-lora-one-steps6000-seed0"} < {
        *names
    }
    assert {"rank4-dora-seed0", "search-rank32-olora"} < {*names}
    assert not {"search-rank4-lora-one", "search-rank8-lora_plus", "rank8-lora_plus-seed0"} & {*names}
    entry = found[names.index("rank16-lora-one-seed1")]
    given = "base=runs/none,steps=2000,rank=16,method=lora,scaling=one,seed=1,smoke=true"
    assert entry.spec == f"configs/lora_ranks.py:{given}"
    for only, index in (("rank64", -1), ("(", -1), ("^full", 2)):
        with pytest.raises(errors.ConfigError, match="--only|--index"):
            study.choose(found, only=only, index=index)


def test_a_run_takes_the_rate_and_the_ratio_that_the_searches_found(monkeypatch, tmp_path):
    asked = {}
    monkeypatch.setattr(rank_study.search, "run", lambda entry, *_, **__: fake_search(entry))
    monkeypatch.setattr(rank_study, "config_of", lambda spec: spec)
    monkeypatch.setattr(rank_study.study, "run", lambda entry, *_, config, **__: asked.update({entry.name: config}))
    found = rank_study.entries("runs/none", seeds=1)
    searches = {entry.name: entry for entry in found if "stage" in entry.arguments}
    for name in ("rank4-lora-one-seed0", "rank4-lora_plus-seed0", "rank8-lora_plus-ratio16-seed0", "full-seed0",
                 "rank8-lora-one-steps6000-seed0"):  # fmt: skip
        rank_study.run(next(x for x in found if x.name == name), str(tmp_path), searches=searches)
    endings = {name: spec.partition("seed=0")[2] for name, spec in asked.items()}
    assert endings == {
        "rank4-lora-one-seed0": ",rate=0.008",
        "rank4-lora_plus-seed0": ",ratio=4,rate=0.002",
        "rank8-lora_plus-ratio16-seed0": ",rate=0.002",
        "full-seed0": ",rate=0.008",
        "rank8-lora-one-steps6000-seed0": ",rate=0.008",
    }


def test_the_page_tells_the_figures(page):
    text = (page / "README.md").read_text()
    for line in (
        "python -m study --seeds=3",
        "Base: `runs/none`, trained on `folder:a` for 9 steps, checkpoint 7 (loss 1.5).",
        "- LoRA first reaches 95 % at rank 32. The elbow of its curve is rank 16. "
        "Rank 32 is the lowest within 1 point of the best.",
        "- SingLoRA reaches 1.0 % with rank 1. No rank solves half of the tasks.",
        "- With 6,000 steps, LoRA of rank 8 reaches 50.0 % (one seed).",
        "Not in the figures: rank64-dora-seed0.",
        "| LoRA | 73,728 | 11.0 ± 1.0 | 21.0 ± 1.0 | 31.0 ± 1.0 | 51.0 ± 1.0 | 91.0 ± 1.0 | 97.0 ± 1.0 | – | 3 |",
        "| full fine-tuning | 8,257,536 | – | – | – | – | – | – | 98.0 ± 1.0 | 3 |",
        "| 16 | 147,456 / 144k | 91.0 ± 1.0 / 88 | 91.0 ± 1.0 / 86 |",
        "| LoRA+ | 0.002 | – | 0.002 | – |",
        "| 4 | 0.002 | 61.0 ± 1.0 | 500 |",
        '- LoRA+, "1 to 2 % better": points above LoRA: +10.0 at rank 1, +10.0 at rank 2,',
        "- LoRA+ against the better of LoRA's two scales (α/r = 1, α = 1): +10.0 at rank 1, +5.0 at rank 2,",
        '- LoRA+, "up to twice as fast": at rank 8 and the best ratio, 4, 2.00 times as fast,',
        '- SingLoRA, "half the weights": 50 % of LoRA\'s at one rank; at equal weights, with twice the rank: -10.0 at',
        '- SingLoRA, "robust to the rate": the loss stays below 1.5 times the best one over a factor of 1 in the rate',
    ):
        assert line in text
    assert {path.name for path in page.iterdir()} == {
        *("README.md", "results.json", "table.csv", "accuracy.png", "variants.png", "rates.png")
    }


def test_the_rows_and_the_table_for_programs(page):
    found = results.load(page / "results.json")
    assert len(found) == (3 * (8 * 6 + 4 + 2) + 1) * 6  # seeds, settings and the longer run, metrics
    one = [r for r in found if r["overrides"] == {"rank": 8, "method": "lora", "scaling": "one"} and r["seed"] == 2]
    assert {r["metric"]: (r["value"], r["paper"]) for r in one} == {
        "exact_match": (0.52, 0.42),
        "exact_match/sort_ascending": (0.52, 0.59),
        "exact_match/sort_descending": (0.52, 0.28),
        "exact_match/add_1": (0.52, 0.40),
        "exact_match/add_2": (0.52, 0.42),
        "trainable": (73_728, 72_000),
    }
    with open(page / "table.csv", newline="") as file:
        lines = {(line["method"], line["rank"], line["metric"]): line for line in csv.DictReader(file)}
    line = lines["LoRA", "32", "exact_match"]
    assert (float(line["mean"]), line["seeds"]) == (pytest.approx(0.97), "3")
    assert float(line["deviation"]) == pytest.approx(0.01)


def test_a_bundle_has_no_checkpoint():
    base = BASE | {"steps": 3500, "checkpoint": None, "figures": {}}
    assert report.describe_base(base) == "Base: `runs/none`, trained on `folder:a` for 3,500 steps."


def test_enough_takes_the_margin_at_its_edge():
    assert report.enough({4: 0.90, 8: 0.98, 16: 0.99, 32: 0.985}) == 8
    assert report.enough({4: 0.97, 8: 0.98, 16: 0.99}) == 8
    assert report.enough({8: 0.5}) == 8
    paper = {4: 0.002, 8: 0.42, 16: 0.88, 32: 0.95}
    assert report.enough(paper) == 32 and report.enough(paper, margin=0.08) == 16
