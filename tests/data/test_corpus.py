"""Running text: lines and documents of every kind of source, and the cache."""

import json

import numpy as np
import pytest

from lwt import errors
from lwt.data import corpus, sources, text, tokenizer

BOOK = "\ufeffIt was late.\nThe rain fell.\n\n\nA dog  barked.\n***\nAll slept.\n\nThe end.\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    (tmp_path / "books").mkdir()
    return tmp_path / "books"


def documents(source):
    """[[line, ...] of each document]"""
    found = {}
    for texts, numbers in corpus.lines(source):
        for line, number in zip(texts, numbers, strict=True):
            found.setdefault(number, []).append(line)
    assert list(found) == sorted(found)
    return list(found.values())


def test_blank_lines_end_a_document_of_a_text_file(folder):
    (folder / "train.txt").write_text(BOOK, encoding="utf-8")
    wanted = [["It was late.", "The rain fell."], ["A dog  barked.", "***", "All slept."], ["The end."]]
    assert documents(sources.load("folder:books")) == documents(sources.load(f"folder:{folder}/train.txt")) == wanted
    assert documents(sources.load("folder:books+folder:books")) == wanted[:2] + [wanted[2], *wanted]


def test_records_are_documents_of_sentences_unless_they_are_sentences(folder):
    stories = ['He said: "Go!" She went. All was well?\nA new line', "One. Two."]
    (folder / "train.jsonl").write_text("".join(json.dumps({"text": story}) + "\n" for story in stories))
    wanted = [['He said: "Go!"', "She went.", "All was well?", "A new line"], ["One.", "Two."]]
    assert documents(sources.load("folder:books")) == wanted
    (folder / "lines.jsonl").write_text("".join(json.dumps({"text": f"Line {i}"}) + "\n" for i in range(5)))
    assert documents(sources.load("folder:books@lines")) == [[f"Line {i}" for i in range(5)]]


def test_every_part_of_joined_sources_has_documents_of_its_own(folder):
    (folder / "train.txt").write_text(BOOK, encoding="utf-8")
    (folder / "news.jsonl").write_text(
        '{"title": "Rain", "description": "It fell. It fell on. It stopped.", "label": 1}\n'
        '{"title": "", "description": "None. At. All.", "label": 0}\n'
    )
    (folder / "pairs.jsonl").write_text('{"premise": "It is late.", "hypothesis": "It is early.", "id": 3}\n')
    book = [["It was late.", "The rain fell."], ["A dog  barked.", "***", "All slept."], ["The end."]]
    news = [["Rain It fell.", "It fell on.", "It stopped."], ["None.", "At.", "All."]]
    found = corpus.load("folder:books@news+folder:books+folder:books@pairs")
    assert documents(found) == [*news, *book, ["It is late.", "It is early."]]
    assert found.name == "folder:books@news+folder:books@train+folder:books@pairs" and len(found) == 2 + 6 + 1
    assert documents(found[1:3]) == [news[1], book[0][:1]]
    assert documents(found[8:]) == [["It is late.", "It is early."]]


def test_parts_may_number_their_classes_differently(folder):
    for name, label, classes in (("news", 0, "World\nSports\n"), ("moods", 1, "sad\nglad\n")):
        (folder.parent / name).mkdir()
        (folder.parent / name / "train.jsonl").write_text(json.dumps({"text": f"The {name}.", "label": label}))
        (folder.parent / name / "labels.txt").write_text(classes)
    found = corpus.load("folder:news+folder:moods")
    assert documents(found) == [["The news."], ["The moods."]] and found.classes == ()


def test_records_without_a_text_are_refused(folder):
    (folder / "train.txt").write_text(BOOK, encoding="utf-8")
    (folder / "other.jsonl").write_text('{"story": "x"}\n')
    with pytest.raises(errors.DataError, match="folder:books@other: .* choose from story"):
        corpus.load("folder:books+folder:books@other")
    (folder / "odd.jsonl").write_text('{"text": "x"}\n{"text": "y"}\n')
    source = sources.load("folder:books@odd")
    source.records.columns["text"][1] = 7
    with pytest.raises(errors.DataError, match="odd.jsonl:2: field 'text' .* is not text: 7"):
        list(corpus.lines(source))
    (folder / "empty.jsonl").write_text('{"text": "x"}\n{"text": ""}\n')
    with pytest.raises(errors.DataError, match="1 of 2 records are malformed.*empty.jsonl:2: field 'text' is empty"):
        corpus.load("folder:books@empty")


def test_bad_lines_of_a_text_file_are_named(folder):
    (folder / "train.txt").write_bytes(b"one\ntw\xff\n" + b"more\n" * 200)
    source = sources.load("folder:books")
    assert len(source) == 201 and "train.txt:2: bad UTF-8 at byte 2" in source.malformed[0]
    with pytest.raises(errors.DataError, match="1 of 202 records are malformed.*train.txt:2"):
        sources.load("folder:books", max_malformed=0.001)
    (folder / "empty.txt").write_text("\n\n")
    with pytest.raises(errors.DataError, match="split 'empty' of folder:books has no records"):
        sources.load("folder:books@empty")


def test_tokens_are_cached_by_content_and_a_damaged_cache_is_made_anew(folder, tmp_path, monkeypatch, caplog):
    (folder / "train.txt").write_text(BOOK, encoding="utf-8")
    source, cleaner = sources.load("folder:books"), text.Cleaner(characters=r"[\w. ]")
    lines = [cleaner.clean(line) for texts, _ in corpus.lines(source) for line in texts]
    tokens = tokenizer.train(lines, tmp_path / "t.model", vocabulary=90, specials=tokenizer.ENCODER)
    first = corpus.tokenize(source, tokens, cleaner=cleaner, folders=(tmp_path / "cache",))
    rows = [first.values[a:b] for a, b in zip(first.offsets[:-1], first.offsets[1:], strict=True)]
    assert tokens.decode(rows) == [line for line in lines if line] and len(lines) == len(first) + 1  # not the stars
    assert first.documents.tolist() == [0, 2, 4, 5] and isinstance(first.values.base, np.memmap)
    assert first.values.dtype == np.uint16
    (cache,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr(tokenizer.Tokenizer, "encode", lambda *_: pytest.fail("the cache was not used"))
    corpus.tokenize(source, tokens, cleaner=cleaner, folders=(tmp_path / "cache",))
    monkeypatch.undo()
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    for name in ("values", "offsets", "documents", "meta.json"):
        content = (cache / name).read_bytes()
        for damage in (content[:-1], bytes([content[0] ^ 1]) + content[1:], b""):
            (cache / name).write_bytes(damage)
            again = corpus.tokenize(source, tokens, cleaner=cleaner, folders=(tmp_path / "cache",))
            np.testing.assert_array_equal(again.values, first.values)
            assert (cache / name).read_bytes() == content
    assert "is damaged" in caplog.text
    corpus.tokenize(source, tokens, cleaner=text.Cleaner(), folders=(tmp_path / "cache",))
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_text_of_which_nothing_is_left(folder, tmp_path):
    (folder / "train.txt").write_text(BOOK, encoding="utf-8")
    tokens = tokenizer.train(["a book"] * 9, tmp_path / "t.model", vocabulary=60, specials=tokenizer.ENCODER)
    with pytest.raises(errors.DataError, match="folder:books@train has no text"):
        corpus.tokenize(
            sources.load("folder:books"), tokens, cleaner=text.Cleaner(characters="@"), folders=(tmp_path / "c",)
        )
