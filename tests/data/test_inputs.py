"""What is asked is a list of texts, the lines of a file or its records, each answered once and in order."""

import gzip
import json
import pathlib

import numpy as np
import pytest

from lwt import errors
from lwt.data import inputs
from lwt.data.kinds import common


class Data(common.Data):
    """What is read of a file depends on the data of a run."""

    identity = positions = training = evaluation = from_texts = example = _evaluation_lengths = max_megabytes = None

    def __init__(self, fields, max_megabytes=256):
        self.input_fields, self.max_megabytes = fields, max_megabytes

    def check_input(self, text):
        if text == "bad":
            raise errors.DataError("a bad text")


def read(path, *, fields=("text",), max_megabytes=256):
    return list(inputs.read(path, Data(fields, max_megabytes)))


@pytest.mark.parametrize(
    "texts", [["a"], [], ("a", "b"), (text for text in "ab"), np.array(["a", "b"]), np.array(["a", "b"], object)]
)
def test_lists_of_texts_are_taken(texts):
    found = inputs.checked(texts)
    assert isinstance(found, list) and all(isinstance(text, str) for text in found)


@pytest.mark.parametrize(
    "texts, message",
    [
        ("one text", r"takes a list of texts, not str 'one text'; for one text, give \[text\]"),
        (b"one text", "takes a list of texts, not bytes"),
        (pathlib.Path("x.png"), "takes a list of texts, not PosixPath"),
        (None, "takes a list of texts, not NoneType"),
        (7, "takes a list of texts, not int"),
        ({"a": 1}, "takes a list of texts, not dict"),
        ({"a", "b"}, "takes a list of texts, not set"),
        (np.array([["a", "b"]]), "takes a list of texts, not ndarray"),
        (["a", None], "text 2 of 2 is None; it must be a string"),
        ([3.5], "text 1 of 1 is 3.5; it must be a string"),
        ([("a", "b")], r"text 1 of 1 is \('a', 'b'\); it must be a string"),
        ([["a"], ["b"]], r"text 1 of 2 is \['a'\]; it must be a string"),
        ([b"a"], "text 1 of 1 is b'a'; it must be a string"),
        (["a", "\ud800"], "text 2 of 2 holds half a surrogate pair"),
    ],
)
def test_anything_else_is_named(texts, message):
    with pytest.raises(errors.DataError, match=message):
        inputs.checked(texts)


def test_lines_of_a_file(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n two \nthree")
    assert read(path) == ["one", "", " two ", "three"]
    path.write_bytes(b"")
    assert read(path) == []


def test_records_of_a_file(tmp_path):
    records = [{"text": "one\ntwo", "more": "x"}, {"text": "", "more": "y"}, {"text": 'say "three", four', "more": "z"}]
    wanted = [" ".join(record["text"].split()) for record in records]
    (tmp_path / "x.csv").write_text('more,text\nx,"one\ntwo"\ny,\nz,"say ""three"", four"\n')
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with gzip.open(tmp_path / "x.jsonl.gz", "wt") as file:
        file.write((tmp_path / "x.jsonl").read_text())
    for name in ("x.csv", "x.jsonl", "x.jsonl.gz"):
        assert read(tmp_path / name) == wanted, name
    assert read(tmp_path / "x.csv", fields=("text", "more"))[2] == 'say "three", four\tz'


def test_a_table_of_tabs_holds_records_if_it_names_the_fields_and_else_lines(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("text\tmore\none\tx\n")
    assert read(path) == ["one"] and read(path, fields=("other",)) == ["text\tmore", "one\tx"]


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("question\nwhy\n")
    with pytest.raises(
        errors.DataError, match="x.csv:2: the run reads the field 'text', and the record has only question"
    ):
        read(tmp_path / "x.csv")
    with pytest.raises(errors.DataError, match="x.csv: this run reads no records; give a .txt file with one path a"):
        read(tmp_path / "x.csv", fields=())
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": 5}\n')
    with pytest.raises(errors.DataError, match="x.jsonl:2: field 'text' of a record is not text: 5"):
        read(tmp_path / "x.jsonl")
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text"\n')
    with pytest.raises(errors.DataError, match="x.jsonl:2: bad JSON"):
        read(tmp_path / "x.jsonl")
    for name in ("none.txt", "none.csv", "."):
        with pytest.raises(errors.DataError, match=f"{tmp_path / name} cannot be read: .*give"):
            read(tmp_path / name)
    (tmp_path / "latin.txt").write_bytes(b"add 1: 2\n\xe4\n")
    with pytest.raises(errors.DataError, match="latin.txt:2: not UTF-8"):
        read(tmp_path / "latin.txt")
    (tmp_path / "x.de").write_text("good\n" * 300 + "bad\n")
    with pytest.raises(errors.DataError, match="x.de:301: a bad text"):
        read(tmp_path / "x.de")


def test_lines_that_are_no_text_are_named(tmp_path):
    (tmp_path / "x.txt").write_bytes("one\ntwo\n".encode("utf-16-le"))
    with pytest.raises(errors.DataError, match="x.txt:1: the line has zero bytes, so it is not UTF-8"):
        read(tmp_path / "x.txt")


def test_a_run_of_images_reads_a_file_a_folder_or_a_list(tmp_path):
    data = Data(())
    data.reads_images = True
    for name in ("b/2.PNG", "a/deep/1.jpg", "a/notes.txt", ".hidden/3.png"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(b"\0")
    paths = [str(tmp_path / "set" / name) for name in ("a/deep/1.jpg", "b/2.PNG")]
    assert list(inputs.read(tmp_path / "set", data)) == paths
    assert list(inputs.read(paths[1], data)) == paths[1:]
    (tmp_path / "list.txt").write_text("\n".join(paths[::-1]))
    assert list(inputs.read(tmp_path / "list.txt", data)) == paths[::-1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.DataError, match="empty has no image; formats: .png, .jpg"):
        list(inputs.read(tmp_path / "empty", data))


def test_lines_may_be_in_utf_16_with_a_byte_order_mark(tmp_path):
    (tmp_path / "x.txt").write_bytes("\ufeffschön\r\nzwei\r\n".encode("utf-16-le"))
    assert read(tmp_path / "x.txt") == ["schön", "zwei"]
    (tmp_path / "x.txt").write_bytes("\ufeffschön".encode("utf-16-le")[:-1])
    with pytest.raises(errors.DataError, match="x.txt cannot be read: bad UTF-16: truncated data; give a text file"):
        read(tmp_path / "x.txt")


def test_lines_and_cells_are_as_long_as_the_run_allows(tmp_path):
    (tmp_path / "x.txt").write_text("one\n" + "a" * 2_000_000 + "\n")
    (tmp_path / "x.csv").write_text("text\none\n" + "a" * 2_000_000 + "\n")
    for name, line in (("x.txt", 2), ("x.csv", 3)):
        assert len(read(tmp_path / name)[-1]) == 2_000_000
        with pytest.raises(errors.DataError, match=f"{name}:{line}: .*longer than data.max_megabytes=1 allows"):
            read(tmp_path / name, max_megabytes=1)


def test_chunks_grow(tmp_path):
    found = list(inputs.chunks(range(40), first=3, most=10))
    assert [len(chunk) for chunk in found] == [3, 6, 10, 10, 10, 1] and sum(found, []) == list(range(40))
    assert list(inputs.chunks([], first=3, most=10)) == []
