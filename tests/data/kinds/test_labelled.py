"""Labelled texts: unknown labels, pairs and joined fields, and the way from folder to batch."""

import collections
import json

import ml_collections
import numpy as np
import pytest

from lwt import errors
from lwt.data import tokenizer
from lwt.data.kinds import labelled

CITIES = ("rome", "oslo", "bonn", "lima", "cairo", "paris", "tokyo", "quito")


def write(folder, *, names=None, **parts):
    folder.mkdir(exist_ok=True)
    for split, records in parts.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if names:
        (folder / "labels.txt").write_text("\n".join(names) + "\n")


def records(count, labels, *, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "text": f"the weather of {' '.join(rng.choice(CITIES, rng.integers(1, 9)))} ({i})",
            "label": labels[i % len(labels)],
        }
        for i in range(count)
    ]


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))

    def data(name="a", workdir="run", **other):
        section = {
            **{"train": f"folder:{name}", "validation": "", "test": "", "fields": (), "label": "label"},
            **{
                "leak_free": False,
                "max_train_records": 0,
                "label_separator": "",
                "max_megabytes": 256.0,
                "max_malformed": 0.05,
                "clean": {},
            },
            **{"tokenizer": {"path": "", "vocabulary": 150, "split_digits": False}},
            **{"rows": 4, "row_length": 32, "cut": "end", "eval_batch": 8},
        }
        return labelled.Labelled(ml_collections.ConfigDict(section | other), tmp_path / workdir)

    return data


def test_a_bad_row_is_told_of_once(make, tmp_path, caplog):
    (tmp_path / "a").mkdir()
    rows = "".join(f"sunny in {city};{i % 2}\n" for i, city in enumerate(CITIES * 5))
    (tmp_path / "a" / "train.csv").write_text(f"text;label\n{rows}one;two;three\n")
    next(make(max_malformed=0.1).training())
    path = tmp_path / "a" / "train.csv"
    assert caplog.text.count(f"{path}:42: ") == 1 and "1 of 41 records are malformed and left out" in caplog.text
    assert caplog.text.count("are separated by") <= 1


def test_from_folder_to_batch(make, tmp_path):
    write(tmp_path / "a", names=["sun", "rain"], train=records(60, [0, 1]), test=records(20, [1], seed=1))
    data = make()
    batch = next(data.training())
    assert {name: array.dtype for name, array in batch.items()} == dict.fromkeys(batch, np.int32)
    assert {name: array.shape[:1] for name, array in batch.items()} == {
        n: a.shape[:1] for n, a in data.example().items()
    }
    train = {record["text"]: record["label"] for record in data.splits.train}
    cleaned = {data._cleaner.clean(text): label for text, label in train.items()}
    batches, seen = data.training(), []
    for _ in range(54 // 4):
        batch = next(batches)
        texts = data.tokenizer.decode(batch["ids"])
        assert [cleaned[text] for text in texts] == batch["label"].tolist()
        seen += texts
    assert len(set(seen)) == len(seen) == 52 and data.positions == batches.measure()["positions"]
    validation = data.evaluation()
    assert len(validation.sources) == 6 and not set(validation.sources) & set(train)
    assert (
        data.evaluation("test").references.tolist() == [1] * 20 and len(data.evaluation("test", limit=7).sources) == 7
    )
    with pytest.raises(errors.DataError, match=r"has no part 'tset'; did you mean 'test'"):
        data.evaluation("tset")
    with pytest.raises(errors.DataError, match=f"; that file is folder:{tmp_path}$"):
        data.evaluation(str(tmp_path))


def test_texts_that_the_tokenizer_does_not_know_are_told(make, tmp_path, caplog):
    write(tmp_path / "a", train=records(40, ["x", "y"]))
    known = make()
    next(iter(known.training()))
    assert "unknown" not in caplog.text
    write(tmp_path / "b", train=[{"text": "привет мир", "label": "xy"[i % 2]} for i in range(40)])
    section = {"path": str(known.tokenizer.path), "vocabulary": 150, "split_digits": False}
    unknown = make("b", "other", tokenizer=section, max_train_records=20)
    unknown.evaluation("train")
    assert "unknown" not in caplog.text
    next(iter(unknown.training()))
    assert f"folder:b@train[train]: 50 % of the tokens are unknown to the tokenizer {tmp_path}/other/" in caplog.text


def test_unknown_labels_are_reported_and_count_as_wrong(make, tmp_path, caplog):
    write(
        tmp_path / "a", train=records(40, ["x", "y"]), validation=records(10, ["x"]), test=records(9, ["x", "z", "z"])
    )
    test = make().evaluation("test")
    assert test.references.tolist() == [0, -1, -1] * 3
    assert "6 of 9 records have labels outside the 2 classes (x, y): 'z' (6)" in caplog.text
    write(tmp_path / "a", test=records(3, ["z"]))
    with pytest.raises(errors.DataError, match=r"3 of 3 records.*'z' \(3\)"):
        make(workdir="other").evaluation("test")


def test_training_labels_outside_of_the_names(make, tmp_path, caplog):
    write(
        tmp_path / "a",
        names=["x", "y", "z"],
        train=[*records(59, ["x", "y"]), *records(1, ["typo"])],
        test=records(5, ["x"]),
    )
    data = make(validation="folder:a@test", test="folder:a@test")
    assert set(next(data.training())["label"].tolist()) <= {0, 1} and len(data._train_examples) == 59
    assert "'typo' (1); they are left out" in caplog.text and "no training record has the label 'z'" in caplog.text
    with pytest.raises(errors.DataError, match=r"1 of 60 records have labels outside the 3 classes"):
        make(validation="folder:a@test", test="folder:a@test", max_malformed=0.01).training()


def test_pairs_and_numbers(make, tmp_path):
    rows = [
        {"sentence1": f"{a} is far", "sentence2": f"from {b}", "label": i / 2}
        for i, (a, b) in enumerate(zip(CITIES * 4, CITIES[1:] * 4))
    ]
    write(tmp_path / "a", train=rows, test=rows[:8])
    data = make()
    assert data.labels.regression and data.labels.outputs == 1 and data.fields == ("sentence1", "sentence2")
    assert (data.outputs, data.test, data.named(""), data.named("validation")) == (1, "test", "test", "validation")
    test = data.evaluation("test")
    batch = next(iter(data.batches(test)))
    assert batch["label"].dtype == np.float32 and batch["label"].tolist() == [
        rows[i]["label"] for i in batch["example"]
    ]
    for ids, segments, example in zip(batch["ids"], batch["segments"], batch["example"], strict=True):
        assert data.tokenizer.decode([ids[segments == 1], ids[segments == 2]]) == test.sources[example].split("\t")
        assert ids[segments == 1][-1] == ids[segments == 2][-1] == tokenizer.SEP
    predicted = data.from_texts(["rome is far\tfrom oslo", "lima is far\tfrom bonn"])
    (batch,) = data.batches(predicted)
    assert "label" not in batch and collections.Counter(batch["example"].tolist()) == {-1: 6, 0: 1, 1: 1}
    with pytest.raises(errors.DataError, match="text 1 of 1: there must be two texts with a tab"):
        data.from_texts(["rome"])


def test_joined_fields_may_be_empty_in_part(make, tmp_path):
    rows = [
        {"title": "" if i % 3 else "News", "description": f"from {CITIES[i % 8]}", "label": i % 2} for i in range(40)
    ]
    write(tmp_path / "a", train=rows, test=rows[:2])
    data = make()
    assert data.fields == ("title+description",)
    assert data.evaluation("test").sources == ["News from rome", "from oslo"]
    assert len(data.splits.train) == 36


def test_to_predict_no_data_is_needed(make, tmp_path):
    write(tmp_path / "a", train=records(40, ["x", "y"]), test=records(4, ["x"]))
    next(make().training())
    (tmp_path / "a" / "train.jsonl").unlink()
    again = make()
    assert again.labels.names == ("x", "y") and len(list(again.batches(again.from_texts(["rome"])))) == 1
    (tmp_path / "run" / "labels.json").write_text("{}")
    with pytest.raises(errors.DataError, match="labels.json is damaged"):
        _ = make().labels
