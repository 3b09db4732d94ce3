"""Which files of a folder make up which split: shards, pairs, subfolders; what contradicts itself; what is not read."""

import gzip
import json

import pyarrow
import pyarrow.parquet
import pytest

from lwt import errors
from lwt.data import formats, layout, sources


@pytest.fixture
def write(tmp_path, monkeypatch):
    """``write("data/train.csv", ["a", "b"])`` writes records {"x": "a"} and {"x": "b"} of the folder set."""
    monkeypatch.setenv("LWT_DATA", str(tmp_path))

    def write(name, texts):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, form = [{"x": text} for text in texts], formats.of(path)
        if form == ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
            return
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        content = {".csv": "\n".join(["x", *texts]), ".json": json.dumps(rows)}.get(form, lines).encode()
        path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)

    return write


def texts(split="train"):
    return [record["x"] for record in sources.load(f"folder:set@{split}")]


@pytest.mark.parametrize(
    "names",
    [
        ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet"),
        ("data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"),
        ("train-00000-of-00002-0a1b2c3d4e5f6a7b.jsonl.gz", "train-00001-of-00002-0a1b2c3d4e5f6a7b.jsonl.gz"),
        ("train-1-of-2.csv", "train-2-of-2.csv"),
        ("train_0.jsonl", "train_1.jsonl"),
        ("Train-1.CSV", "Train-2.CSV"),
        ("train/0000.parquet", "train/0001.parquet"),
        ("data/train/a.jsonl", "data/train/b.jsonl"),
    ],
)
def test_shards_are_one_split(write, names):
    for name, part in zip(names, (["a", "b"], ["c"]), strict=True):
        write(name, part)
    write("test.JSONL" if "/" not in names[0] else "test-00000-of-00001.parquet", ["d"])
    assert texts() == ["a", "b", "c"] and texts("test") == ["d"]
    assert sources.splits("folder:set") == ["test", "train"]
    source = sources.load("folder:set")
    assert source.where(2).startswith(str(source.where(0))[:5]) and names[1] in source.where(2)
    assert sources.describe("folder:set").startswith("folder:set@train (") and names[1].split("/")[-1] in source.origin


def test_ten_shards_are_in_the_order_of_their_numbers(write):
    for i in range(11):
        write(f"train-{i}.csv", [str(i)])
    assert texts() == [str(i) for i in range(11)]


def test_numbers_that_are_no_shards_stay_splits(write):
    for name in ("train.csv", "test-2016.csv", "test-2017.csv", "test2018.csv", "fold_0.csv", "fold_1.csv"):
        write(name, [name])
    assert sources.splits("folder:set") == ["fold_0", "fold_1", "test-2016", "test-2017", "test2018", "train"]


@pytest.mark.parametrize(
    "names, message",
    [
        (("train-00000-of-00003.csv", "train-00002-of-00003.csv"), "of 3 shards, those numbered 1 are missing"),
        (("train-00000-of-00001.csv", "train-00000-of-00001.jsonl"), "more than once"),
        (("train.csv", "train-00000-of-00001.csv"), "more than once: train.csv; train-00000-of-00001.csv"),
        (("train.csv", "data/train.csv"), "more than once"),
        (("train/a.csv", "train/b.jsonl"), "several formats: a.csv, b.jsonl"),
        (("train-0-of-2.csv", "train-00-of-2.csv", "train-1-of-2.csv"), "twice"),
    ],
)
def test_files_that_contradict_each_other_are_refused(write, names, message):
    for name in names:
        write(name, ["a"])
    with pytest.raises(errors.DataError, match=message):
        texts()


def test_arrays_of_json_and_their_lines(write, tmp_path):
    write("train.json", ["a", "b"])
    assert texts() == ["a", "b"]
    path = tmp_path / "set/train.json"
    path.write_text('[\n {"x": "a"},\n {"x": 3},\n\n {"x": "c"}\n]\n')
    assert sources.load("folder:set", max_malformed=0.5).malformed == (
        f"{path}:3: field 'x' is 3, and not text as in the first record",
    )
    path.write_text('{"x": "a"}\n{"x": "b"}\n')  # many a .json holds lines
    assert texts() == ["a", "b"]
    for content in ('[{"x": "a"},\n{"x": ]', '[{"x": "a"}\n{"x": "b"}]', '[{"x": "a"}'):
        path.write_text(content)
        with pytest.raises(errors.DataError, match=r"train.json:\d: bad JSON"):
            texts()
    path.write_text('[{"x": "a"}]\n[{"x": "b"}]')
    with pytest.raises(errors.DataError, match="train.json:1: more follows the array"):
        texts()
    path.write_text('{\n"data": [{"x": "a"}]\n}')
    with pytest.raises(errors.DataError, match="records are malformed"):
        texts()


@pytest.mark.parametrize("form", ["{}.de", "{}.de-en.de", "{}.de.gz", "{}.de.txt", "data/{}.DE"])
def test_pairs_of_text_files_are_records(tmp_path, monkeypatch, form):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    sides = {"de": ["ein Hund", "zwei\u2028Hunde", "drei"], "en": ["a dog", "two dogs", "three"]}
    for split in ("train", "validation"):
        for language, lines in sides.items():
            name = form.replace(".de", f".{language}").replace("DE", language.upper()).replace("en-en", "de-en")
            path = tmp_path / "set" / name.format(split)
            path.parent.mkdir(parents=True, exist_ok=True)
            content = "".join(line + "\n" for line in lines).encode()
            path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = sources.load("folder:set", split="validation")
    assert source.fields == ("de", "en")
    assert [(*record.values(),) for record in source] == [*zip(*sides.values(), strict=True)]
    assert sources.splits("folder:set") == ["train", "validation"]
    path.write_bytes(path.read_bytes()[:0] if not path.name.endswith("gz") else gzip.compress(b"a dog\n"))
    with pytest.raises(errors.DataError, match="has fewer lines than"):
        sources.load("folder:set", split="validation")


def test_what_is_not_read_is_named(write, tmp_path, caplog):
    write("train.csv", ["a", "b"])
    for name in ("test.csv.zip", "dev.arrow", "README.md", ".hidden", "dataset_infos.json"):
        (tmp_path / "set" / name).write_bytes(b"")
    (tmp_path / "set/validation.csv").symlink_to("nowhere")
    sources.report(sources.load("folder:set"))
    assert "set: not read: dev.arrow, test.csv.zip, validation.csv" in caplog.text and "README" not in caplog.text
    with pytest.raises(
        errors.DataError, match="no split 'test'; choose from train; not read: dev.arrow, test.csv.zip, vali"
    ):
        texts("test")
    (tmp_path / "set/train.csv").unlink()
    with pytest.raises(errors.DataError, match=r"no data that is read \(.*\.jsonl, \.json.*train\.de.*not read: dev"):
        texts()
    (tmp_path / "set/de-en").mkdir()
    (tmp_path / "set/de-en/train.csv").write_text("x\na\n")
    with pytest.raises(errors.DataError, match="is it folder:set/de-en"):
        texts()
    (tmp_path / "set/train.arrow").write_bytes(b"")
    with pytest.raises(errors.DataError, match="train.arrow is not of a format that is read: a folder can hold"):
        sources.load(f"folder:{tmp_path}/set/train.arrow")


def test_suffixes_of_other_files_are_no_languages(tmp_path):
    for name in ("train.py", "train.sh", "train.md", "model.pth", "model.bin"):
        (tmp_path / name).touch()
    assert layout.splits(tmp_path)[0] == {}


def test_records_named_like_documents_are_not_silently_left_out(tmp_path):
    for name in ("train.jsonl", "source.jsonl", "labels.csv", "README.md", "labels.txt", "_x.csv"):
        (tmp_path / name).write_text("")
    assert {path.name for path in layout.splits(tmp_path)[1]} == {"source.jsonl", "labels.csv"}
