"""The tokenizer of Marian models: numbering, sides and file; `tests/huggingface/test_marian.py` compares ids."""

import functools
import io
import json

import numpy as np
import pytest
import sentencepiece

from lwt import errors
from lwt.data import marian_tokenizer, tokenizer

TEXTS = {
    "source": ["a cold old house", "the bold dog sleeps", "a warm long day in the dark house"] * 9,
    "target": ["ein kaltes altes Haus", "der kühne Hund schläft", "ein warmer langer Tag im dunklen Haus"] * 9,
}


@functools.cache
def spm(side):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[side]), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def written(folder, *, separate=False):
    """A folder of transformers with the tokenizer's files; a shared table ends with pad, as published ones do."""
    folder.mkdir()
    pieces = {}
    for side in TEXTS:
        (folder / f"{side}.spm").write_bytes(spm(side))
        processor = sentencepiece.SentencePieceProcessor(model_proto=spm(side))
        pieces[side] = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    tables = {"vocab.json": pieces["source"], "target_vocab.json": pieces["target"]} if separate else {}
    tables = tables or {"vocab.json": [*dict.fromkeys([*pieces["target"], ">>deu<<", *pieces["source"]])]}
    for name, found in tables.items():
        rows = ["</s>", "<unk>", "<pad>", *found] if separate else ["</s>", "<unk>", *found, "<pad>"]
        ids = {piece: i for i, piece in enumerate(rows)}
        (folder / name).write_text(json.dumps(ids), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": separate}))
    return folder


@pytest.fixture(params=[False, True], ids=["shared", "separate"])
def folder(request, tmp_path):
    return written(tmp_path / "marian", separate=request.param)


def test_ids_have_lwts_special_numbers(folder, tmp_path):
    found = marian_tokenizer.import_folder(folder, tmp_path / marian_tokenizer.FILE)
    tables = [json.loads((folder / "vocab.json").read_text())] * 2
    if (folder / "target_vocab.json").exists():
        tables[1] = json.loads((folder / "target_vocab.json").read_text())
    assert found.source_vocabulary == (0 if tables[0] is tables[1] else len(tables[0]) + 1)
    for side, table, name in zip(found.sides, tables, TEXTS, strict=True):
        assert side.order.tolist()[:4] == [-1, 1, table["<pad>"], 0]  # none, unknown, pad, end
        assert sorted(side.order.tolist()) == [-1, *range(len(table))] and side.pieces == len(table) + 1
        model = sentencepiece.SentencePieceProcessor(model_proto=spm(name))
        for text in TEXTS[name]:
            wanted = [table[piece] for piece in model.encode(text, out_type=str)]
            assert side.order[side.encode([text])[0]].tolist() == wanted
            assert side.decode(side.encode([text])) == [text]
    assert found.encode(["a cold Q"])[0][-1] == tokenizer.UNK
    assert found.decode([[2, *found.sides[1].encode(["ein Haus"])[0], 3, 0, 0]]) == ["ein Haus"]
    assert found.encode([""]) == [[]] and found.decode([]) == []


def test_a_text_may_begin_with_the_code_of_a_language(tmp_path):
    found = marian_tokenizer.import_folder(written(tmp_path / "marian"), tmp_path / marian_tokenizer.FILE)
    plain, coded, other = found.encode(["a house", ">>deu<< a house", ">>fra<< a house"])
    assert coded[1:] == plain and coded[0] >= found.first and other == [tokenizer.UNK, *plain]
    assert found.dtype == np.uint16


def test_the_folder_comes_back(folder, tmp_path):
    found = marian_tokenizer.import_folder(folder, tmp_path / marian_tokenizer.FILE)
    (tmp_path / "back").mkdir()
    marian_tokenizer.export_folder(found, tmp_path / "back")
    again = marian_tokenizer.import_folder(tmp_path / "back", tmp_path / "again.json")
    assert again.fingerprint == found.fingerprint
    for name in ("source.spm", "target.spm", "vocab.json"):
        read = json.loads if name.endswith("json") else bytes
        assert read((tmp_path / "back" / name).read_bytes()) == read((folder / name).read_bytes())


def test_damaged_and_missing_files_are_named(tmp_path):
    folder, path = written(tmp_path / "marian"), tmp_path / marian_tokenizer.FILE
    table = json.loads((folder / "vocab.json").read_text())
    with pytest.raises(errors.DataError, match="tokenizer.marian cannot be read"):
        marian_tokenizer.Tokenizer(path)
    marian_tokenizer.import_folder(folder, path)
    for content in ("{", "[]", "{}", json.dumps({"source": "?", "target": ""})):
        (tmp_path / "damaged.json").write_text(content)
        with pytest.raises(errors.DataError, match="tokenizer .*damaged.json is damaged"):
            marian_tokenizer.Tokenizer(tmp_path / "damaged.json")
    for changed, message in (
        ({k: v for k, v in table.items() if k != "<pad>"}, "has no <pad>"),
        (table | {"more": 10**6}, "the ids of its .* pieces must be 0 to"),
        (dict.fromkeys(table, "x"), "its ids are not numbers"),
        ([], "vocab.json is damaged: it must be an object"),
    ):
        (folder / "vocab.json").write_text(json.dumps(changed))
        with pytest.raises(errors.DataError, match=message):
            marian_tokenizer.import_folder(folder, tmp_path / "other.json")
    (folder / "vocab.json").write_text(json.dumps(table))
    (folder / "source.spm").write_bytes(b"no model")
    with pytest.raises(errors.DataError, match="the SentencePiece model is damaged"):
        marian_tokenizer.import_folder(folder, tmp_path / "other.json")
    (folder / "source.spm").unlink()
    with pytest.raises(errors.DataError, match="source.spm cannot be read"):
        marian_tokenizer.import_folder(folder, tmp_path / "other.json")
