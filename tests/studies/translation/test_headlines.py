"""The study of headlines: the first words of a text, and a run with its page."""

import json

import pytest

from lwt.report import results
from studies.translation import headlines

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_the_first_words_are_counted_on_the_validation_set():
    text = " ".join(f"w{i}" for i in range(20))
    found = headlines.lead(([text], ["w0 w1 w2 w3 w4 w5"]), test=([text, text], ["w0 w1 w2", "x"]))
    assert found["words"] == 6
    assert found["rougeL"] == pytest.approx(100 * (2 * (3 / 6) * 1 / (3 / 6 + 1)) / 2)


def test_the_share_of_words_that_are_copied():
    found = headlines.copied(["Rain, in town", "nothing new"], ["rain falls on the town", "x"])
    assert found == pytest.approx(2 / 5)


def test_a_run_and_the_page(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "ag_news_subset"
    folder.mkdir(parents=True)
    for split, count in (("train", 40), ("validation", 4), ("test", 6)):
        rows = [
            {"description": f"rain falls on town {i % 7} again", "title": f"rain in town {i % 7}"} for i in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("LWT_DATA", str(folder.parent))
    (entry,) = headlines.entries(seeds=1, smoke=True)
    record = headlines.run(entry, str(tmp_path / "runs"))
    assert record["texts"] == 6 and record["lead"]["words"] in headlines.WORDS
    assert record["copied"]["titles"] == pytest.approx(3 / 4) and 0 <= record["copied"]["answers"] <= 1
    record["figures"] |= {"rouge1": 20.0, "rouge2": 5.0, "rougeL": 18.126}
    record["lead"] = {"words": 9, "rouge1": 30.0, "rouge2": 10.0, "rougeL": 25.0}
    headlines.write(tmp_path / "out", {entry.name: record}, missing=["seed1"], command_line="c")
    page = (tmp_path / "out" / "README.md").read_text()
    assert "Not in the figures: seed1." in page and "6 test texts" in page
    assert "Descriptions contain 75.0 % of the words of their titles" in page
    assert "| the first 9 words | – | 30.00 | 10.00 | 25.00 |" in page
    assert f"| the model | {record['parameters']:,} | 20.00 (n=1) | 5.00 (n=1) | 18.13 (n=1) |" in page
    rows = {row["metric"]: row["value"] for row in results.load(tmp_path / "out" / "results.json")}
    assert rows["lead/rougeL"] == 25.0 and rows["rougeL"] == 18.126
