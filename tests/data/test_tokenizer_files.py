"""The tokenizer of a run is one of two files: found, copied, and compared with that of the base."""

import pytest

from lwt import errors
from lwt.data import tokenizer, tokenizer_files
from tests.huggingface import small


def test_a_folder_has_one_of_two_files(tmp_path):
    small.word_piece().save(str(tmp_path / "given.json"))
    tokenizer_files.copy(tmp_path / "given.json", tmp_path / "run")
    tokenizer.train(
        ["ein alter hund"] * 9, tmp_path / "base/tokenizer.model", vocabulary=60, specials=tokenizer.ENCODER
    )
    given = {"specials": tokenizer.ENCODER}
    own = tokenizer_files.of_run(tmp_path / "run", **given)
    assert own.path.name == "tokenizer.json" and own.cleans and own.piece(2) == "[CLS]"
    other = tokenizer_files.of_run(tmp_path / "base", **given)
    assert other.path.name == "tokenizer.model" and not other.cleans and other.piece(4) == "[SEP]"
    assert tokenizer_files.of_run(tmp_path / "empty", tmp_path / "base", **given).fingerprint == other.fingerprint
    with pytest.raises(errors.DataError, match="is not the tokenizer of .*base, whose weights fit no other"):
        tokenizer_files.of_run(tmp_path / "run", tmp_path / "base", **given)
    with pytest.raises(errors.DataError, match="empty/tokenizer.model cannot be read: .*training has begun$"):
        tokenizer_files.of_run(tmp_path / "empty", **given)
