"""The study of adapters without its training: which runs there are, and what the page says."""

import json

import numpy as np
import pytest

from configs import finetune, lora_ranks
from lwt.report import results
from studies.adapters import report, study

BASES = dict(encoder="runs/encoder", translator="runs/translator")
HARDWARE = "nothing"


def fake(entry):
    """The record of an entry; accuracy rises with the size, LoRA is best, and rounding to int8 costs a point."""
    about = entry.arguments
    fixed = {"arguments": about, "config": entry.spec, "hardware": HARDWARE, "seconds": 36.0}
    name = "exact_match" if about["task"] == "arithmetic" else "accuracy"
    accuracy = 0.5 + about["size"] / 100 + (0.2 if about["method"] == "lora" else 0.0) + 0.01 * about.get("seed", 0)
    if about.get("stage") == "search":
        return fixed | {"tried": [{"rate": 0.04, name: 0.1}, {"rate": 0.01, name: accuracy}], "rate": 0.01}
    if about.get("stage") == "cost":
        return fixed | {"memory": 2_000_000, "step_seconds": 0.01, "merge_seconds": 0.002}
    count = 10 * about["size"] or 7
    adapted = about["method"] not in ("full", "head")
    stored = {"bytes": {"float32": 4 * count, "float16": 2 * count, "int8": count + 4}, "int8": {name: accuracy - 0.01}}
    return fixed | {
        "steps": 100,
        "learning_rate": 0.01,
        "figures": {"data": f"folder:{about['task']}@test", name: accuracy},
        "trainable": count,
        **(stored if adapted else {}),
    }


@pytest.fixture(scope="module")
def found():
    return study.entries(**BASES)


def test_every_method_of_the_configs_is_in_the_study(found):
    methods = {entry.arguments["method"] for entry in found}
    assert methods == {*report.TITLES} == {*study.SIZES}
    left_out = {"rslora", "olora"}  # LoRA with another scale and another start: the study of ranks has them
    assert {*finetune.METHODS, *lora_ranks.TRAINABLE} - methods == left_out


def test_runs_have_three_seeds_and_one_search(found):
    names = [entry.name for entry in found]
    assert len({*names}) == len(names)
    assert {"search-snips-lora-4", "snips-lora-4-seed2", "limit-ia3-seed0", "arithmetic-c3a-16-seed1"} < {*names}
    assert not any("arithmetic-head" in name for name in names)
    assert {"cost-snips-lora-4", "cost-arithmetic-full"} < {*names} and "cost-emotion-lora-4" not in names
    specs = {entry.name: entry.spec for entry in found}
    given = "base=runs/encoder,method=lora,rank=4,data=folder:snips,epochs=3.0,rows=32,length=48,seed=2"
    assert specs["snips-lora-4-seed2"] == f"configs/finetune.py:{given}"
    assert specs["search-arithmetic-ia3"] == "configs/lora_ranks.py:base=runs/translator,method=ia3,steps=500"


def test_the_configs_of_methods_with_keys_of_their_own():
    found = study.entries(encoder="pretrained/embbert-tinynlp", translator="pretrained/multi30k")
    by_name = {entry.name: entry for entry in found}
    config = study.config_of(by_name["snips-c3a-16-seed0"])
    assert config.reparam.block_size == 16 and config.data.max_train_records == study.ENCODER["snips"][0]
    pruned = study.config_of(by_name["arithmetic-adalora-4-seed0"]).reparam
    assert (pruned.begin, pruned.end, pruned.budget) == (50, 350, 4)
    assert study.config_of(by_name["snips-singlora-8-seed0"]).reparam.ramp == 19


def test_rounding_to_eight_bits():
    leaves = {"a": np.array([[1.0, -254.0], [127.0, 254.0]], np.float32), "b": np.zeros(3, np.float32)}
    rounded, size = study.rounded_to_int8(leaves)
    np.testing.assert_allclose(rounded["a"], leaves["a"], atol=1)
    np.testing.assert_array_equal(rounded["b"], leaves["b"])
    assert size == 4 + 3 + 4 * (2 + 1)


def test_the_page(found, tmp_path):
    records = {entry.name: fake(entry) for entry in found}
    report.write(tmp_path, records, missing=["snips-lora-64-seed0"], command_line="python -m study")
    text = (tmp_path / "README.md").read_text()
    for line in (
        "Bases: runs/encoder, runs/translator. 100 steps each; 2 rates for every method, size and task.",
        "- Not in the figures: snips-lora-64-seed0.",
        "- Of any size: LoRA 16, 87.0 % with 320 bytes.\n",
        "- For comparison: head alone, 51.0 %.",
        "| LoRA 16 | 160 | 640 | 320 | 164 | 87.0 ± 1.0 | 87.0 ± 1.0 | 87.0 ± 1.0 | 87.0 | -1.0 | 2.0 | 10.0 | 2.00 |",
        "| all weights | 7 | 28 | 14 | 7 | 51.0 ± 1.0 | 51.0 ± 1.0 | 51.0 ± 1.0 | 51.0 | – | 2.0 | 10.0 | 2.00 | 3 |",
        "| IA3 | 0.01* | 0.01* | 0.01* | 0.01* |",
    ):
        assert line in text, line
    assert {path.name for path in tmp_path.iterdir()} == {
        *("README.md", "results.json", "table.csv", "encoder.png", "translator.png")
    }
    rows = results.load(tmp_path / "results.json")
    one = [
        row for row in rows if row["overrides"] == {"task": "snips", "method": "lora", "size": 4} and row["seed"] == 1
    ]
    assert {row["metric"]: row["value"] for row in one} == {"accuracy": 0.75, "trainable": 40}


def test_times_of_another_machine_are_not_shown(found, tmp_path):
    records = {entry.name: fake(entry) for entry in found}
    records["cost-snips-lora-16"]["hardware"] = "a faster machine"
    report.write(tmp_path, records, missing=[], command_line="python -m study")
    (encoder,) = [line for line in (tmp_path / "README.md").read_text().splitlines() if "| LoRA 16 | 160 |" in line][:1]
    assert encoder.endswith("| -1.0 | 2.0* | – | – | 3 |")


def test_half_a_study_has_a_page(found, tmp_path):
    some = [entry for entry in found if entry.arguments["task"] == "snips" or entry.arguments["method"] == "ia3"]
    report.write(tmp_path, {entry.name: fake(entry) for entry in some}, missing=[], command_line="python -m study")
    text = (tmp_path / "README.md").read_text()
    assert "| IA3 |" in text and "LoRA 16 | 160" not in text
    assert json.loads((tmp_path / "results.json").read_text())


def test_advice_chooses_on_validation_data_and_names_no_adapter_that_learns_nothing(found):
    chosen = [entry for entry in found if entry.arguments["task"] == "arithmetic" and "stage" not in entry.arguments]
    groups = {}
    for entry in chosen:
        about, record = entry.arguments, fake(entry)
        small = about["method"] == "unilora"
        record["figures"]["exact_match"] = {"ia3": 0.703, "lora": 0.9}.get(about["method"], 0.01)
        record |= {} if about["method"] == "full" else {"bytes": {"float16": 256 if small else 9_000 + about["size"]}}
        groups.setdefault((about["method"], about["size"]), {}).setdefault("arithmetic", []).append(record)
    judged = {(method, size): {"ia3": 0.7, "lora": 0.698}.get(method, 0.02) for method, size in groups}
    said = report.advice(groups, report.TRANSLATOR, judged=judged)
    assert said[0] == "Up to 1,000 bytes (float16): no adapter here learns the task."
    assert said[1].startswith("Up to 10,000 bytes (float16): **IA3**, 70.3 % with 9,000 bytes; at most half a point")
    assert said[1].endswith("on the validation sets: LoRA 1 (90.0 %), LoRA 4 (90.0 %), LoRA 16 (90.0 %).")
    assert said[3] == "Of any size: IA3, 70.3 % with 9,000 bytes."


def test_the_search_tells_the_accuracy_on_the_validation_set(found):
    searches = [fake(entry) for entry in found if entry.arguments.get("stage") == "search"]
    judged = report.validated(searches, report.ENCODER)
    assert judged["lora", 16] == pytest.approx(0.86) and judged["head", 0] == 0.5
    assert ("head", 0) not in report.validated(searches, report.TRANSLATOR)
