"""The splitting rule, its file, and what the parts share."""

import json
import os

import pytest

from lwt import errors, files
from lwt.data import sources, splits


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))

    def write(name, **parts):
        (tmp_path / name).mkdir(exist_ok=True)
        for split, texts in parts.items():
            records = [{"text": text, "label": i % 2} for i, text in enumerate(texts)]
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (tmp_path / name / f"{split}.jsonl").write_text(lines)
        return f"folder:{name}"

    return write


def texts(source):
    return [record["text"] for record in source]


def numbered(prefix, count):
    return [f"{prefix} {i}" for i in range(count)]


def test_provided_splits_are_used_as_they_are(folder, tmp_path):
    name = folder("a", train=numbered("t", 5), dev=numbered("v", 3), test_b=["x"], test_a=["y"], more=["z"])
    made = splits.make(name, tmp_path / "s.json")
    assert made.rule == "i" and made.fields == ("text",)
    assert [texts(part) for part in (made.train, made.validation)] == [numbered("t", 5), numbered("v", 3)]
    assert {test: texts(source) for test, source in made.tests.items()} == {"test_a": ["y"], "test_b": ["x"]}


@pytest.mark.parametrize("second", ["test", "validation"])
def test_one_other_split_is_the_test(folder, tmp_path, second):
    name = folder("a", **{"train": numbered("t", 57), second: numbered("x", 60)})
    made = splits.make(name, tmp_path / "s.json")
    assert made.rule == "ii" and texts(made.tests["test"]) == numbered("x", 60)
    assert len(made.validation) == 5 and sorted(texts(made.train) + texts(made.validation)) == sorted(numbered("t", 57))


def test_without_splits_two_parts_are_withheld(folder, tmp_path):
    made = splits.make(folder("a", whatever=numbered("t", 100)), tmp_path / "s.json")
    parts = [texts(part) for part in (made.train, made.validation, made.tests["test"])]
    assert made.rule == "iii" and [len(part) for part in parts] == [81, 9, 10]
    assert sorted(sum(parts, [])) == sorted(numbered("t", 100))
    assert made.counts["test in train"] == made.counts["validation in train"] == 0


def test_named_sources_replace_what_the_rule_finds(folder, tmp_path):
    name = folder("a", train=numbered("t", 30), validation=["v", "w"], test=["hidden"])
    made = splits.make(f"{name}@train", tmp_path / "s.json", tests=[f"{name}@validation"])
    assert made.rule == "ii" and texts(made.tests["test"]) == ["v", "w"] and len(made.validation) == 3
    many = splits.make(name, tmp_path / "m.json", validation=name, tests=[f"{name}@validation", f"{name}@test"])
    assert texts(many.validation) == ["v", "w"] and set(many.tests) == {f"{name}@validation", "test"}


def test_joined_sets_are_joined_split_by_split(folder, tmp_path):
    name = f"{folder('a', train=['t'] * 10, test=['x'])}+{folder('b', train=['u'] * 10, test=['y'])}"
    made = splits.make(name, tmp_path / "s.json")
    assert made.rule == "ii" and texts(made.tests["test"]) == ["x", "y"]
    assert sorted(texts(made.train) + texts(made.validation)) == ["t"] * 10 + ["u"] * 10


@pytest.mark.parametrize("second", [("validation",), ("validation_matched", "validation_mismatched")])
def test_splits_with_hidden_labels_do_not_count(tmp_path, monkeypatch, second):
    def load(name, **_):
        hidden = "@test" in name or "unsupervised" in name
        records = [{"text": f"{name} {i}", "label": -1 if hidden else i % 2} for i in range(30)]
        return sources.Source(name=name, records=records, fields=("text", "label"), fingerprint=name)

    monkeypatch.setattr(sources, "splits", lambda name: ["test", *second, "train", "unsupervised"])
    monkeypatch.setattr(sources, "load", load)
    made = splits.make("tfds:glue/x", tmp_path / "s.json")
    assert made.rule == "ii" and [len(made.train), len(made.validation)] == [27, 3]
    wanted = {"test" if len(second) == 1 else split: f"tfds:glue/x@{split}" for split in second}
    assert {name: source.name for name, source in made.tests.items()} == wanted


def write(tmp_path, split, labels):
    lines = [json.dumps({"text": f"{split} {i}", "label": label}) + "\n" for i, label in enumerate(labels)]
    (tmp_path / f"a/{split}.jsonl").write_text("".join(lines))


@pytest.mark.parametrize("hidden", [-1, "-1", -1.0])
def test_files_with_hidden_labels_are_no_test_sets(folder, tmp_path, caplog, hidden):
    name = folder("a", train=numbered("t", 30), validation=numbered("v", 3))
    write(tmp_path, "test", [hidden] * 4)
    made = splits.make(name, tmp_path / "s.json")
    assert made.rule == "ii" and texts(made.tests["test"]) == numbered("v", 3)
    assert "the labels of folder:a@test are hidden (all are -1): it is not used" in caplog.text
    with pytest.raises(errors.DataError, match="folder:a@test are hidden .*must name sets with labels"):
        splits.make(name, tmp_path / "n.json", tests=[f"{name}@test"])
    write(tmp_path, "train", [hidden, type(hidden)(1)] * 15)  # where -1 is a label
    write(tmp_path, "test", [hidden] * 4)
    assert splits.make(name, tmp_path / "o.json").rule == "i"


def test_no_part_is_guessed_from_its_size(folder, tmp_path, caplog):
    name = folder("a", one=numbered("t", 30), two=["x", "y"])
    with pytest.raises(errors.DataError, match="has the splits one, two, but no split train; name the parts"):
        splits.make(name, tmp_path / "s.json")
    name = folder("b", train=numbered("t", 30), test=["x"], more=["y"], device=["z"])
    made = splits.make(name, tmp_path / "s.json")
    assert "folder:b: not used: the splits device, more;" in caplog.text
    assert "train: folder:b@train[train] (train.jsonl), 27 records" in str(made)
    assert "test: folder:b@test (test.jsonl), 1 records" in str(made)


def test_errors_after_a_split_name_the_line(folder, tmp_path):
    name = folder("a", train=[*numbered("t", 27), 5, "x", "y"])
    with pytest.raises(errors.DataError, match=r"train.jsonl:28: field 'text' is 5"):
        splits.make(name, tmp_path / "s.json", max_malformed=0)
    folder("a", train=numbered("t", 30))
    made = splits.make(name, tmp_path / "s.json")
    for part in (made.train, made.validation[1:], made.tests["test"].subset(2)):
        for i, record in enumerate(part):
            assert part.where(i) == f"{tmp_path}/a/train.jsonl:{int(record['text'].split()[1]) + 1}"
    joined = sources.load(f"{name}+{name}")
    assert joined.where(31) == joined[29:].where(2) == f"{tmp_path}/a/train.jsonl:2"


def test_the_same_records_every_time_and_another_seed_draws_others(folder, tmp_path):
    name = folder("a", train=numbered("t", 200))
    first = splits.make(name, tmp_path / "s.json")
    kept = json.loads((tmp_path / "s.json").read_text())
    kept["indices"]["validation"]["records"][0], kept["indices"]["test"]["records"][0] = (
        kept["indices"]["test"]["records"][0],
        kept["indices"]["validation"]["records"][0],
    )
    files.write_json(tmp_path / "s.json", kept, checked=True)
    again = splits.make(name, tmp_path / "s.json")  # what the file says counts, not what would be drawn
    assert texts(again.train) == texts(first.train) and texts(again.validation) != texts(first.validation)
    assert texts(splits.make(name, tmp_path / "b.json").validation) == texts(first.validation)
    assert texts(splits.make(name, tmp_path / "c.json", seed=1).validation) != texts(first.validation)


def test_a_file_of_other_data_is_refused(folder, tmp_path):
    name = folder("a", train=numbered("t", 50))
    splits.make(name, tmp_path / "s.json")
    with pytest.raises(errors.DataError, match="s.json was made with seed 0, not 3; .*another --workdir"):
        splits.make(name, tmp_path / "s.json", seed=3)
    folder("a", train=[*numbered("t", 49), "changed"])
    with pytest.raises(errors.DataError, match="s.json was made with train.fingerprint"):
        splits.make(name, tmp_path / "s.json")
    for damage in ('{"asked": {}}', "{", "[]"):
        (tmp_path / "s.json").write_text(damage)
        with pytest.raises(errors.DataError, match="s.json is damaged"):
            splits.make(name, tmp_path / "s.json")


def test_leaks_are_counted_and_can_be_left_out(folder, tmp_path, caplog):
    train = [*numbered("t", 20), "A  Leak", "of validation", "a leak"]
    name = folder("a", train=train, validation=["v", "OF validation", "a leak "], test=["x", "a leak", "x"])
    made = splits.make(name, tmp_path / "s.json")
    wanted = {"train": 23, "validation": 3, "test": 3, "repeated in train": 1, "repeated in test": 1}
    wanted |= {"validation in train": 2, "test in train": 1, "test in validation": 1, "repeated in validation": 0}
    assert made.counts == wanted and str(made).endswith("test in validation 1")
    clean = splits.make(name, tmp_path / "clean.json", leak_free=True)
    assert texts(clean.train) == train[:20] and texts(clean.validation) == ["v", "OF validation"]
    shared = ("validation in train", "test in train", "test in validation")
    assert "a@test: 1 of 3" not in caplog.text
    folder("a", test=["x", "a leak", "t 0", "t 1"])
    splits.make(name, tmp_path / "other.json")
    assert "folder:a@test: 3 of 4 records are training records too" in caplog.text
    assert len(clean.tests["test"]) == 3 and [clean.counts[name] for name in shared] == [0, 0, 0]


def test_what_can_be_wrong(folder, tmp_path):
    path = tmp_path / "s.json"
    with pytest.raises(errors.DataError, match="has the splits a, b, c, but no split train"):
        splits.make(folder("n", a=["x"], b=["x"], c=["x"]), path)
    with pytest.raises(errors.DataError, match="10 % of 9 records is less than one; name data.validation"):
        splits.make(folder("few", train=numbered("t", 9), test=["x"]), path)
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "train.jsonl").write_text('{"story": "x", "label": 1}\n')
    with pytest.raises(errors.DataError, match="data.fields should name one or two text fields; choose from .*story"):
        splits.make("folder:odd", path)
    assert not path.exists()


@pytest.mark.skipif(not os.environ.get("LWT_DATA"), reason="LWT_DATA, the folder of real data, is not set")
@pytest.mark.parametrize(
    "name, rule, sizes, leaks",
    [
        ("glue_cola", "i", (7696, 855, 1043), (5, 13, 3)),
        ("snips", "i", (13084, 700, 700), (15, 26, 1)),
        ("glue_rte", "i", (2241, 249, 277), (0, 0, 0)),
    ],
)
def test_real_sets_have_the_leaks_that_are_known(tmp_path, name, rule, sizes, leaks):
    made = splits.make(f"folder:{name}", tmp_path / "s.json")
    assert made.rule == rule and (len(made.train), len(made.validation), len(made.tests["test"])) == sizes
    counts = made.counts
    assert (counts["validation in train"], counts["test in train"], counts["test in validation"]) == leaks
    assert isinstance(made.train, sources.Source) and made.train.classes
