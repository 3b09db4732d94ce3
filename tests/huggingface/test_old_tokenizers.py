"""Files from before tokenizer.json make the tokenizer that the library would load."""

import json

import pytest

from lwt import errors
from lwt.data import hf_tokenizer
from lwt.huggingface import old_tokenizers
from tests.huggingface import small

TEXTS = [*small.TEXTS, "An OLD café…", "你好 世界 é 🙂"]


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_words_of_bert(lowercase, tmp_path):
    made = small.word_piece(lowercase=lowercase)
    words = sorted(made.get_vocab().items(), key=lambda item: item[1])
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in words), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lowercase}))
    made.save(str(tmp_path / "wanted.json"))
    old_tokenizers.write(tmp_path, tmp_path / "tokenizer.json")
    found, wanted = (hf_tokenizer.Tokenizer(tmp_path / name) for name in ("tokenizer.json", "wanted.json"))
    assert found.encode(TEXTS) == wanted.encode(TEXTS) and found.frame == wanted.frame


def test_a_token_may_be_a_line_separator(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2028", "\x85", "a", "b"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    old_tokenizers.write(tmp_path, tmp_path / "tokenizer.json")
    assert hf_tokenizer.Tokenizer(tmp_path / "tokenizer.json").encode(["a b"]) == [[7, 8]]


def test_the_byte_pairs_of_roberta(tmp_path):
    made = small.byte_pairs()
    made.model.save(str(tmp_path))
    made.save(str(tmp_path / "wanted.json"))
    old_tokenizers.write(tmp_path, tmp_path / "tokenizer.json")
    found, wanted = (hf_tokenizer.Tokenizer(tmp_path / name) for name in ("tokenizer.json", "wanted.json"))
    assert found.encode(TEXTS) == wanted.encode(TEXTS) and found.frame == wanted.frame


def test_incomplete_files_are_named(tmp_path):
    with pytest.raises(errors.CheckpointError, match="has no tokenizer.json; .*AutoTokenizer.from_pretrained"):
        old_tokenizers.write(tmp_path, tmp_path / "tokenizer.json")
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\nword\n")
    with pytest.raises(errors.CheckpointError, match=r"vocab.txt lacks \[SEP\]"):
        old_tokenizers.write(tmp_path, tmp_path / "tokenizer.json")
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "vocab.json").write_text("{")
    (tmp_path / "merges.txt").write_text("a b\n")
    with pytest.raises(errors.CheckpointError, match="its tokenizer is damaged"):
        old_tokenizers.write(tmp_path, tmp_path / "tokenizer.json")
