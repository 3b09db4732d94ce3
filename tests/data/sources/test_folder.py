"""Folders of records: every format, and everything that can be wrong with a file."""

import gzip
import json
import os

import pyarrow
import pyarrow.parquet
import pytest

from lwt import errors
from lwt.data import sources

ROWS = [
    {"de": "ein\u2028Hund", "en": 'a "dog", brown'},
    {"de": "Straße", "en": "street\x85"},
    {"de": "zwei", "en": "two"},
]


def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    (tmp_path / "pairs").mkdir()
    return tmp_path / "pairs"


def test_the_formats_hold_the_same_records(folder):
    quoted = "de,en\n" + "".join('"{}","{}"\n'.format(r["de"], r["en"].replace('"', '""')) for r in ROWS)
    tabbed = "de\ten\r\n" + "".join(f"{r['de']}\t{r['en']}\r\n" for r in ROWS)
    (folder / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + jsonl(ROWS) + b"\n")
    (folder / "b.csv").write_text(quoted, encoding="utf-8", newline="")
    (folder / "c.tsv").write_text(tabbed, encoding="utf-8", newline="")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "d.parquet")
    for name in ("a.jsonl", "b.csv", "c.tsv"):
        (folder / f"z{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    for split in ("a", "b", "c", "d", "za", "zb", "zc"):
        source = sources.load("folder:pairs", split=split)
        assert [source[i] for i in range(len(source))] == ROWS, split
        assert source.fields == ("de", "en") and source.malformed == ()


def test_malformed_records_are_named_counted_and_left_out(folder):
    lines = [
        jsonl(ROWS[:1]),
        b'{"de": "x", "en": \n',  # 2: bad JSON
        b'["de", "en"]\n',  # 3: no object
        b'{"de": "x"}\n',  # 4: a field is missing
        b'{"de": "\xff", "en": "y"}\n',  # 5: bad UTF-8
        b'{"de": "  ", "en": "y"}\n',  # 6: an empty side
        b'{"de": null, "en": "y"}\n',  # 7
        b'{"de": 3, "en": "y"}\n',  # 8: no text
        b'{"de": "\\ud800", "en": "y"}\n',  # 9: half a surrogate pair
        b"\n",  # 10: no record at all
        b'{"de": "d", "en": "e", "more": 1}\n',  # 11: fine, a field too many is ignored
        jsonl(ROWS[1:2]),
    ]
    (folder / "train.jsonl").write_bytes(b"".join(lines))
    source = sources.load("folder:pairs", max_malformed=0.8)
    assert [source[i] for i in range(len(source))] == [ROWS[0], {"de": "d", "en": "e"}, ROWS[1]]
    expected = ["bad JSON", "JSON object", "no field 'en'", "bad UTF-8", "'de' is empty", "null", "3", "surrogate"]
    assert len(source.malformed) == len(expected)
    for number, words, message in zip(range(2, 10), expected, source.malformed, strict=True):
        assert f"train.jsonl:{number}: " in message and words in message
    with pytest.raises(
        errors.DataError, match=r"8 of 11 records are malformed \(72.7%, allowed 1.0%\).*train.jsonl:2:"
    ):
        sources.load("folder:pairs")


def test_malformed_cells(folder):
    text = b'de,en\nein,one\nzwei\n"dr\nei",three\nv\xffier,four\nf\xc3\xbcnf,five,5\n,six\n'
    (folder / "train.csv").write_bytes(text)
    source = sources.load("folder:pairs", max_malformed=0.7)
    assert [source[i]["en"] for i in range(len(source))] == ["one", "three"]
    wanted = ["csv:3: 1 cells instead of 2", "csv:6: bad UTF-8", "csv:7: 3 cells", "csv:8: field 'de' is empty"]
    for words, message in zip(wanted, source.malformed, strict=True):
        assert words in message


def test_a_stray_quote_cannot_swallow_a_file_unnoticed(folder):
    rows = ["de,en", *(f"{i},{i}" for i in range(50)), 'x,"y', *(f"{i},{i}" for i in range(50))]
    (folder / "train.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(errors.DataError, match="51 of 101"):
        sources.load("folder:pairs")


def test_damaged_and_empty_files(folder):
    packed = gzip.compress(jsonl([{"de": os.urandom(40).hex(), "en": "x"} for _ in range(5000)]))
    (folder / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0xFF
    (folder / "flipped.jsonl.gz").write_bytes(flipped)
    (folder / "plain.jsonl.gz").write_bytes(jsonl(ROWS))
    (folder / "d.parquet").write_bytes(b"PAR1 nothing")
    for split, place in (("cut", r"line [1-9]\d+"), ("flipped", r"line \d+"), ("plain", "line 0"), ("d", "row 0")):
        with pytest.raises(errors.DataError, match=rf"{split}\.(jsonl\.gz|parquet) is damaged after {place} "):
            sources.load(f"folder:pairs@{split}")
    (folder / "empty.jsonl").write_bytes(b"\n\n")
    with pytest.raises(errors.DataError, match="split 'empty' of folder:pairs has no records"):
        sources.load("folder:pairs", split="empty")


def test_fields_asked_for_are_needed_and_others_kept_where_all_have_them(folder):
    (folder / "train.jsonl").write_bytes(
        jsonl([{"a": 1, "x": "u", "y": 2, "task": "t"}, {"x": "v", "y": "", "task": ""}])
    )
    source = sources.load("folder:pairs", fields=("y", "x"), max_malformed=0.5)
    assert source[0] == {"y": 2, "x": "u", "a": 1, "task": "t"} and "is '', and not int" in source.malformed[0]
    source = sources.load("folder:pairs", fields=("x",))
    assert list(source) == [{"x": "u", "y": 2, "task": "t"}, {"x": "v", "y": "", "task": ""}]


def test_classes_are_named_by_labels_txt(folder):
    (folder / "train.jsonl").write_bytes(b'{"text": "x", "label": 1}\n')
    (folder / "other.jsonl").write_bytes(b'{"text": "x"}\n')
    assert sources.load("folder:pairs").classes == ()
    (folder / "labels.txt").write_text("no\n yes \n\n")
    assert sources.load("folder:pairs").classes == ("no", "yes") == sources.load("folder:pairs")[:1].classes
    assert sources.load("folder:pairs@other").classes == () and sources.splits("folder:pairs") == ["other", "train"]
    for text, words in (("no\nyes\nno\n", "'no' is there twice"), ("no\n", "1 names")):
        (folder / "labels.txt").write_text(text)
        with pytest.raises(errors.DataError, match=f"labels.txt: {words}; it must name every class once"):
            sources.load("folder:pairs")


def test_fingerprint_follows_the_content(folder):
    (folder / "train.jsonl").write_bytes(jsonl(ROWS))
    first = sources.load("folder:pairs").fingerprint
    assert sources.load(f"folder:{folder}").fingerprint == first
    (folder / "train.jsonl").write_bytes(jsonl([*ROWS[:2], {"de": "zwei", "en": "too"}]))
    assert sources.load("folder:pairs").fingerprint != first


@pytest.mark.skipif(not os.environ.get("LWT_DATA"), reason="LWT_DATA, the folder of real data, is not set")
def test_real_pairs_load_whole():
    source = sources.load("folder:multi30k_de_en", fields=("de", "en"))
    assert len(source) == 29000 and not source.malformed


def test_a_file_has_no_splits(folder):
    (folder / "a.jsonl").write_bytes(jsonl(ROWS))
    assert (
        len(sources.load("folder:pairs/a.jsonl", split="test")) == len(sources.load("folder:pairs/a.jsonl@train")) == 3
    )
    with pytest.raises(errors.DataError, match="pairs/a.jsonl is one file, without a split 'validatoin'"):
        sources.load("folder:pairs/a.jsonl@validatoin")
    assert sources.with_split("folder:pairs/a.jsonl", "test") == "folder:pairs/a.jsonl"
    assert sources.with_split("folder:nowhere", "test") == "folder:nowhere@test"
    assert sources.with_split("folder:pairs+folder:pairs@a", "test") == "folder:pairs@test+folder:pairs@a"


def test_the_limit_of_a_record_is_part_of_the_fingerprint(folder):
    (folder / "train.jsonl").write_bytes(jsonl([*ROWS, {"de": "d" * 2000, "en": "e"}]))
    short, whole = (sources.load("folder:pairs", max_malformed=0.5, max_megabytes=size) for size in (0.001, 256))
    assert (len(short), len(whole)) == (3, 4) and short.fingerprint != whole.fingerprint


def test_records_without_a_common_field_are_refused(folder):
    (folder / "train.jsonl").write_bytes(jsonl([{"version": 1}, *ROWS]))
    with pytest.raises(errors.DataError, match="train.jsonl:2: the record has no field that all earlier ones have"):
        sources.load("folder:pairs", fields=())


def test_two_texts_of_one_language_are_refused(folder):
    for name in ("train.de", "train.de.txt", "train.en"):
        (folder / name).write_text("a\n")
    with pytest.raises(errors.DataError, match="the texts 'de' are there twice: train.de, train.de.txt, train.en"):
        sources.load("folder:pairs")
