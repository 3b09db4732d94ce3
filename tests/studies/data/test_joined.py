"""Sets of texts and classes in one, for one base of many tasks."""

import gzip
import json
import subprocess
import sys

import pytest

from lwt import errors
from studies.data import joined


def table(folder, *, classes=(), **splits):
    """A folder with the records ``{split: [record]}``."""
    folder.mkdir()
    for split, records in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if classes:
        (folder / "labels.txt").write_text("".join(f"{name}\n" for name in classes))
    return f"folder:{folder}"


@pytest.fixture
def tasks(tmp_path):
    moods = [{"text": f"mood {i}", "label": i % 2} for i in range(4)]
    titles = ("", "news 1")  # a part of a joined text may be empty
    news = [{"title": titles[i], "description": "é", "label": "sport" if i else "world"} for i in range(2)]
    return {
        "mood": table(tmp_path / "mood", classes=("sad", "glad"), train=moods, validation=moods[:1], test=moods),
        "news": table(tmp_path / "news", train=news, validation=news[1:]),
    }


def read(folder, split):
    with gzip.open(folder / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_classes_have_the_names_of_their_tasks(tasks, tmp_path):
    out = tmp_path / "joined"
    command = [f"--tasks={'|'.join(f'{name}={data}' for name, data in tasks.items())}", "--repeat=news=2"]
    subprocess.run([sys.executable, "-m", "studies.data.joined", *command, f"--out={out}"], check=True)
    assert {path.name for path in out.iterdir()} == {"train.jsonl.gz", "validation.jsonl.gz"}
    assert read(out, "validation") == [
        {"text": "mood 0", "label": "mood: sad"},
        {"text": "news 1 é", "label": "news: sport"},
    ]
    train = [record["label"] for record in read(out, "train")]
    assert train == ["mood: sad", "mood: glad"] * 2 + ["news: world"] * 2 + ["news: sport"] * 2


@pytest.mark.parametrize(
    ("text", "message"), [("mood", "'mood' should be"), ("a=b|a=c", "'a=c' should be"), ("", "'' should be")]
)
def test_tasks_have_a_name_and_data(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        joined.tasks_of(text)


@pytest.mark.parametrize("text", ["other=2", "mood=0", "mood", "mood=-1"])
def test_repeats_are_of_tasks(text):
    with pytest.raises(errors.ConfigError, match=r"TASK=N, with a task of mood"):
        joined.repeats_of([text], ["mood"])


def test_pairs_of_texts_are_refused(tmp_path):
    pairs = [{"sentence1": "a", "sentence2": "b", "label": "x"}]
    data = table(tmp_path / "pairs", train=pairs, validation=pairs)
    with pytest.raises(errors.DataError, match="takes single texts"):
        joined.write({"pairs": data}, tmp_path / "out", repeats={"pairs": 1})
    assert not (tmp_path / "out").exists()
