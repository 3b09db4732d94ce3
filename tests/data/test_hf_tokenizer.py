"""A ``tokenizer.json`` gives the same ids as in transformers, and its frame is read from it."""

import random

import numpy as np
import pytest

from lwt import errors
from lwt.data import hf_tokenizer
from lwt.data.batches import labelled_examples, tokenized
from tests.huggingface import small

WORDS = (
    "the cold house by the sea an old warm wind naïve café Ærøskøbing größer Straße ÉCOLE straße İstanbul ığdır "
    "Ελλάδα αρχαία Москва ёлка 你好 世界 東京 日本語 한국어 안녕 العربية مرحبا עברית हिन्दी नमस्ते ไทย 🙂 👩‍👩‍👧 "
    "x=1 e-mail don't it’s “quoted” £5 3.14 1,000 <b>bold</b> http://a.b/c?d=e\u00a0f \u200b a\u0301e\u0308 ﬁn ½ ＡＢＣ"
).split(" ")
KINDS = {
    "WordPiece, lower case": lambda texts: small.word_piece(texts, size=600),
    "WordPiece, cased": lambda texts: small.word_piece(texts, size=600, lowercase=False),
    "byte-level BPE": lambda texts: small.byte_pairs(texts, size=600),
    "Unigram": lambda texts: small.unigram(texts, size=400),
}


def lines(count, seed):
    """Lines of words of many scripts, with spaces, tabs, cut words and changed cases here and there."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        words = draw.choices(WORDS, k=draw.randint(0, 14))
        words = [draw.choice((str, str, str.upper, str.title, lambda word: word[1:]))(word) for word in words]
        made.append("".join(word + draw.choice((" ", " ", " ", "  ", "\t", "", ", ", ".\n")) for word in words))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_5000_lines_in_many_scripts(kind, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs transformers (the extra `test`)")
    KINDS[kind](lines(400, seed=0)).save(str(tmp_path / "tokenizer.json"))
    ours = hf_tokenizer.Tokenizer(tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    texts = lines(5000, seed=1)
    ids, frame = ours.encode(texts), ours.frame
    wanted = theirs(texts)["input_ids"]
    assert [[*frame.begin, *row, *frame.end] for row in ids] == wanted
    assert len({i for row in ids for i in row}) > 200 and max(map(max, wanted)) < ours.pieces
    pairs = list(zip(texts[:50], texts[50:100]))
    rows = theirs([a for a, _ in pairs], [b for _, b in pairs], return_token_type_ids=True)
    sides = tuple(tokenized.RaggedArray.of(part) for part in (ids[:50], ids[50:100]))
    examples = labelled_examples.LabelledExamples(sides, None, max_length=512, frame=frame)
    batch = examples.batch(examples.draw(np.arange(50), None), 512, None)
    for i in range(50):
        size = len(rows["input_ids"][i])
        assert batch["ids"][i].tolist() == rows["input_ids"][i] + [frame.pad] * (512 - size)
        assert batch["segments"][i].tolist() == [kind + 1 for kind in rows["token_type_ids"][i]] + [0] * (512 - size)
    assert ours.decode(ids[:9]) == theirs.batch_decode(ids[:9], skip_special_tokens=True)


def test_the_frame_is_that_of_the_file(tmp_path):
    found = {}
    for made in (small.word_piece, small.byte_pairs, small.unigram):
        made().save(str(tmp_path / "t.json"))
        found[made] = hf_tokenizer.Tokenizer(tmp_path / "t.json").frame
    assert [(f.begin, f.between, f.end, f.segments, f.pad, f.mask, f.specials) for f in found.values()] == [
        ((2,), (3,), (3,), (1, 2), 0, 4, (0, 1, 2, 3, 4)),
        ((0,), (2, 2), (2,), (1, 1), 1, 4, (0, 1, 2, 3, 4)),
        ((0,), (2, 2), (2,), (1, 1), 1, 4, (0, 1, 2, 3, 4)),
    ]
    assert found[small.byte_pairs].count(1) == 2 and found[small.byte_pairs].count(2) == 4


def test_truncation_and_padding_of_the_file_have_no_effect(tmp_path):
    made = small.word_piece()
    made.enable_truncation(4)
    made.enable_padding(length=16, pad_id=1)
    made.save(str(tmp_path / "t.json"))
    found = hf_tokenizer.Tokenizer(tmp_path / "t.json")
    assert found.frame.pad == 1 and len(found.encode(["an old warm wind by the sea"])[0]) > 6
    assert found.piece(found.frame.mask) == "[MASK]" and found.decode([[2, 9999, -1, 3]]) == [""]


def test_what_is_no_tokenizer_is_refused(tmp_path):
    for content in (b"", b"{}", b"\xff", b'{"model": {"type": "Bert"}}'):
        (tmp_path / "t.json").write_bytes(content)
        with pytest.raises(errors.DataError, match="t.json is damaged, or not a tokenizer.json"):
            hf_tokenizer.Tokenizer(tmp_path / "t.json")
    with pytest.raises(errors.DataError, match="none.json cannot be read: No such file"):
        hf_tokenizer.Tokenizer(tmp_path / "none.json")
    made = small.word_piece()
    made.post_processor = small.processors.TemplateProcessing(
        single="$A [SEP]", pair="$B:1 [SEP] $A", special_tokens=[("[SEP]", 3)]
    )
    made.save(str(tmp_path / "t.json"))
    with pytest.raises(errors.DataError, match="must be begin, first, between, second, end"):
        hf_tokenizer.Tokenizer(tmp_path / "t.json")
