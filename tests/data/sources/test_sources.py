"""Names of sources, and what holds for every kind."""

import json

import pytest

from lwt import errors
from lwt.data import sources


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    for name, start in (("one", 0), ("two", 100)):
        (tmp_path / name).mkdir()
        for split, size in (("train", 5), ("validation", 2)):
            lines = [f'{{"x": "{split}{start + i}", "{name}": "z"}}\n' for i in range(size)]
            (tmp_path / name / f"{split}.jsonl").write_text("".join(lines))
    return tmp_path


def values(source):
    return [record["x"] for record in source]


def test_split_in_the_name_comes_first(data):
    assert values(sources.load("folder:one", split="validation")) == ["validation0", "validation1"]
    assert values(sources.load("folder:one@validation", split="train")) == ["validation0", "validation1"]
    assert sources.load("folder:one@validation").name == "folder:one@validation"


def test_joined_sources_follow_each_other(data):
    source = sources.load("folder:one+folder:two@validation")
    assert values(source) == [*(f"train{i}" for i in range(5)), "validation100", "validation101"]
    assert source.fields == ("x",)
    assert source.read(4, 99) == [source[4], source[5], source[6]]
    assert source.fingerprint != sources.load("folder:two@validation+folder:one").fingerprint


def test_joined_sources_agree_on_splits_and_classes(data, caplog):
    for name, names, label in (("one", "no\nyes\n", 0), ("two", "yes\nno\n", 1)):
        (data / name / "train.jsonl").write_text(json.dumps({"x": "a", "label": label}))
        (data / name / "labels.txt").write_text(names)
    with pytest.raises(
        errors.DataError, match=r"number their classes differently \(folder:one@train: no, yes; folder:two"
    ):
        sources.load("folder:one+folder:two")
    texts = sources.load("folder:one+folder:two", fields=("x",))
    assert len(texts) == 2 and texts.classes == ()  # the labels are not used
    (data / "one/train.jsonl").write_text('{"x": "a", "label": "no"}')
    (data / "two/train.jsonl").write_text('{"x": "a", "label": "yes"}')
    assert len(sources.load("folder:one+folder:two")) == 2
    assert sources.splits("folder:one+folder:two") == ["train", "validation"] and "not used" not in caplog.text
    (data / "two/validation.jsonl").unlink()
    assert sources.splits("folder:one+folder:two") == ["train"]
    assert "folder:one+folder:two: not used: the splits validation, which not all parts have" in caplog.text


def test_what_is_picked_of_joined_sources(data):
    source = sources.load("folder:one+folder:two")
    assert [values(part) for part in source[3:7].parts] == [["train3", "train4"], ["train100", "train101"]]
    assert [part.fields for part in source[3:7].parts] == [("x", "one"), ("x", "two")]
    assert [values(part) for part in source[3:7][2:].parts] == [["train100", "train101"]]
    assert values(source[8:1:-3]) == ["train103", "train100", "train2"] and len(source[:0]) == 0
    some = values(source.subset(6))
    assert len(set(some)) == 6 and some == sorted(some, key=values(source).index)


def test_a_split_of_all_parts():
    assert sources.at("folder:a", "test") == sources.at("folder:a@train", "test") == "folder:a@test"
    assert sources.at("tfds:b/c-d@train[:9]+folder:me@home/x", "s") == "tfds:b/c-d@s+folder:me@home/x@s"


def test_slices_and_subsets_are_sources(data):
    source = sources.load("folder:one")
    assert values(source[1:4]) == ["train1", "train2", "train3"]
    some = source.subset(3, seed=1)
    assert len(some) == 3 and values(some) == sorted(set(values(some))) == values(source.subset(3, seed=1))
    assert some.fingerprint not in (source.fingerprint, source[1:4].fingerprint)
    assert source.subset(0) is source.subset(99) is source


@pytest.mark.parametrize(
    "name, words",
    [
        ("multi30k", "expected KIND:NAME"),
        ("floder:one", "did you mean 'folder'"),
        ("text:one", r"no kind 'text'; choose from folder, generated, tfds"),
        ("folder:onne", "did you mean 'one'"),
        ("folder:one@tran", "did you mean 'train'"),
        ("folder:one@xyzzy", "choose from train, validation"),
        ("generated:arithmetics", "did you mean 'arithmetic'"),
    ],
)
def test_wrong_names_say_what_there_is(data, name, words):
    with pytest.raises(errors.DataError, match=words):
        sources.load(name)


def test_a_field_that_no_record_has(data):
    with pytest.raises(errors.DataError, match=r"folder:one@train has no field 'y'; choose from one, x"):
        sources.load("folder:one", fields=("x", "y"))


def test_unset_lwt_data_is_named(monkeypatch):
    monkeypatch.delenv("LWT_DATA", raising=False)
    with pytest.raises(errors.DataError, match="LWT_DATA"):
        sources.load("folder:nowhere")
