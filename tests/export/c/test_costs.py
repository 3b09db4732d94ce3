"""The report has the cost of a sentence and of the longest row, by layer."""

import re

import pytest

from lwt import errors
from lwt.export.c import costs, export

pytest.importorskip("ziglang", reason="pip install '.[c]' brings the compiler")
pytest.importorskip("unicorn", reason="pip install '.[c]' brings the emulator")
pytestmark = pytest.mark.usefixtures("compiled_once")


def test_costs_by_layer(variant, tmp_path):
    experiment = variant("embbert", layers=2, kernel_size=4, pool="rms")
    report = export.export(experiment, tmp_path / "out", sentences=["a cold one"], clock=100.0, prefix="intents")
    assert report["sentence"] == "a cold one" and report["worst_case"]["tokens"] == 24 > 2 * report["tokens"]
    names, sums = [row["name"] for row in report["layers"]], {}
    assert names == ["text", "embedding", "layer 0", "layer 1", "head"]
    for key in ("instructions", "worst_case"):
        sums[key] = sum(row[key] for row in report["layers"])
    assert sums == {"instructions": report["instructions"], "worst_case": report["worst_case"]["instructions"]}
    text, embedding, first, second, head = (row["worst_case"] / row["instructions"] for row in report["layers"])
    assert head == 1 and 24 / report["tokens"] < first < (24 / report["tokens"]) ** 2  # attention is quadratic
    assert report["milliseconds"] == round(report["instructions"] * costs.CPI / 100e3, 3)
    assert max(row["arena"] for row in report["layers"]) <= report["ram"]["arena"]
    assert report["layers"][2]["arena"] == sum(report["arena"][part] for part in ("ids", "states", "rows"))


@pytest.mark.parametrize("outputs, ngrams", [(3, 0), (300, 0), (120, 1200)])
def test_the_stack_has_room_for_many_classes(variant, tmp_path, outputs, ngrams):
    experiment = variant("embbert", layers=1, outputs=outputs, ngram_weights=ngrams)
    experiment.labels = tuple(f"class {i}" for i in range(outputs))
    report = export.export(experiment, tmp_path / "out", activations="int8")
    stack = int(re.search(r"STACK \?= (\d+)", (tmp_path / "out/Makefile").read_text())[1])
    assert report["self_test_failures"] == 0 and report["stack_used"] < stack
    assert (stack == 1024) == (outputs == 3)


@pytest.mark.parametrize("text", ["<b>", "https://example.org/play", "&nbsp;", "a cold one"])
def test_the_longest_row_is_full_whatever_cleaning_leaves(run, text):
    length = run.config.data.row_length
    assert len(costs.reference.row(run, costs._longest(run, (text,)))[0]) >= length


def test_a_sentence_that_the_emulator_cannot_hold_is_not_measured(variant, tmp_path):
    report = export.export(variant("embbert", layers=1), tmp_path / "out", sentences=["x" * 33_000])
    assert "does not fit" in report["not_measured"] and (tmp_path / "out/Makefile").exists()


def test_a_record_of_two_texts_needs_two_sentences(variant, monkeypatch):
    experiment = variant("bert")
    monkeypatch.setattr(costs.reference, "sides", lambda _: 2)
    assert len(costs.texts_of(experiment, ())) == 2
    with pytest.raises(errors.ConfigError, match="sentence is given 1 times; a record of the run has 2"):
        costs.texts_of(experiment, ["one"])
