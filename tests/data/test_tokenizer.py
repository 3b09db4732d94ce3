"""The tokenizer: round trip, sizes, determinism, and what can be wrong."""

import contextlib
import types

import numpy as np
import pytest

from lwt import errors
from lwt.data import tokenizer

WORDS = (
    "ein eine mann frau hund katze spielt läuft im auf dem park straße und mit schnell a man woman dog plays".split()
)


def corpus(count=400, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return tokenizer.train(corpus(), tmp_path_factory.mktemp("t") / "t.model", vocabulary=120)


def test_round_trip(tokens):
    texts = [*corpus(50, seed=1), "add 2: 8 13 2 5", "a man, 7 dogs?", ""]
    rows = tokens.encode(texts)
    assert tokens.decode(rows) == texts  # digits and punctuation are known, though the corpus has none
    assert all(tokenizer.EOS < i < tokens.pieces for row in rows for i in row)


def test_the_share_of_unknown_ids(tokens):
    ids = np.concatenate([np.array(row) for row in tokens.encode(["ab", "ж"])])
    assert tokenizer.unknown_share(ids, tokens) == (ids == tokens.unknown).sum() / len(ids) > 0
    assert tokenizer.unknown_share(np.array([], int), tokens) == 0
    byte_level = types.SimpleNamespace(unknown=None)
    assert tokenizer.unknown_share(ids, byte_level) == 0


def test_sizes_and_special_ids(tokens):
    assert tokens.pieces == 120 and tokens.vocabulary == 128
    row = tokens.encode(["ein mann"])[0]
    marked = [tokenizer.BOS, *row, tokenizer.EOS, tokenizer.PAD, tokens.pieces, tokens.vocabulary - 1, -1]
    assert tokens.decode([np.array(marked, np.int32)]) == ["ein mann"]
    assert tokens.encode(["ein Ж"])[0][-1] == tokenizer.UNK
    assert tokens.decode([]) == [] and tokens.encode([]) == []


def test_the_same_input_gives_the_same_model(tokens, tmp_path):
    again = tokenizer.train(corpus(), tmp_path / "again.model", vocabulary=120)
    other = tokenizer.train(corpus(seed=3), tmp_path / "other.model", vocabulary=120)
    assert again.fingerprint == tokens.fingerprint != other.fingerprint
    assert sorted(p.name for p in tmp_path.glob("[!.]*")) == ["again.model", "other.model"]


def test_a_small_corpus_gives_what_it_has(tmp_path):
    small = tokenizer.train(["ein hund"] * 20, tmp_path / "s.model", vocabulary=8000)
    assert small.pieces < 100 and small.decode(small.encode(["ein hund"])) == ["ein hund"]


def test_split_digits(tmp_path):
    texts = ["13 130 1301"] * 50
    split = tokenizer.train(texts, tmp_path / "d.model", vocabulary=100, split_digits=True)
    joined = tokenizer.train(texts, tmp_path / "j.model", vocabulary=100)
    assert len(split.encode(["1301"])[0]) >= 4 > len(joined.encode(["1301"])[0])


def test_what_can_be_wrong(tokens, tmp_path):
    with pytest.raises(errors.DataError, match="vocabulary 20 is smaller than the characters"):
        tokenizer.train(corpus(), tmp_path / "x.model", vocabulary=20)
    with pytest.raises(errors.DataError, match="empty"):
        tokenizer.train([], tmp_path / "x.model", vocabulary=100)
    with pytest.raises(errors.DataError, match="missing.model cannot be read"):
        tokenizer.Tokenizer(tmp_path / "missing.model")
    (tmp_path / "cut.model").write_bytes(tokens.path.read_bytes()[:500])
    with pytest.raises(errors.DataError, match="cut.model is damaged"):
        tokenizer.Tokenizer(tmp_path / "cut.model")


def test_one_flipped_bit_is_named_or_harmless(tmp_path):
    """In a file without a checksum, as older runs have it; with one, every flip is named."""
    content = tokenizer.train(corpus(), tmp_path / "t.model", vocabulary=100).path.read_bytes()
    generator, named = np.random.default_rng(0), 0
    for bit in generator.integers(0, 8 * len(content), 300):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "flipped.model").write_bytes(damaged)
        try:
            tokens = tokenizer.Tokenizer(tmp_path / "flipped.model")
            tokens.decode([*tokens.encode(["any text, 5 of it"]), range(tokens.pieces)])
        except errors.DataError as error:
            assert "flipped.model" in str(error)
            named += 1
    assert named > 50
    (tmp_path / "t.model").write_bytes(damaged)
    with pytest.raises(errors.DataError, match="t.model is damaged: its checksum differs"):
        tokenizer.Tokenizer(tmp_path / "t.model")


def test_special_ids_of_text_encoders(tmp_path):
    tokens = tokenizer.train(corpus(), tmp_path / "e.model", vocabulary=110, specials=tokenizer.ENCODER, exact=True)
    assert tokens.pieces == tokens.vocabulary == 110 and tokens.first == 5
    assert [tokens._processor.id_to_piece(i) for i in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[MASK]", "[SEP]"]
    (row,) = tokens.encode(["[CLS] ein [MASK]"])
    assert not {tokenizer.CLS, tokenizer.MASK, tokenizer.SEP, tokenizer.PAD} & set(row)  # text cannot make them
    marked = [tokenizer.CLS, *tokens.encode(["ein hund"])[0], tokenizer.MASK, tokenizer.SEP, tokenizer.PAD]
    assert tokens.decode([marked]) == ["ein hund"]
    again = tokenizer.train(corpus(), tmp_path / "a.model", vocabulary=110, specials=tokenizer.ENCODER, exact=True)
    assert again.fingerprint == tokens.fingerprint


def test_the_two_numberings_are_not_mixed_up(tokens, tmp_path):
    tokenizer.train(corpus(), tmp_path / "e.model", vocabulary=110, specials=tokenizer.ENCODER)
    with pytest.raises(errors.DataError, match="begin and end must be the ids 0, 1, 2, 3"):
        tokenizer.Tokenizer(tmp_path / "e.model")
    with pytest.raises(errors.DataError, match=r"ids 0 to 4 must be \[PAD\], \[UNK\], \[CLS\], \[MASK\], \[SEP\]"):
        tokenizer.Tokenizer(tokens.path, specials=tokenizer.ENCODER)


def test_an_exact_size_that_the_text_does_not_yield(tmp_path):
    args = {"specials": tokenizer.ENCODER, "exact": True}
    with pytest.raises(
        errors.DataError, match=r"vocabulary 8000 is more than the text yields; it .* at most \d+$"
    ) as e:
        tokenizer.train(corpus(), tmp_path / "x.model", vocabulary=8000, **args)
    most = int(str(e.value).rpartition(" ")[2])
    assert tokenizer.train(corpus(), tmp_path / "y.model", vocabulary=most, **args).pieces == most


def test_a_flipped_bit_in_a_model_without_a_checksum(tokens, tmp_path):
    """Every bit of the first pieces: what can be read is read, the rest is an error of one line."""
    model, path = tokens.path.read_bytes(), tmp_path / "a.model"
    for place in range(60):
        for bit in range(8):
            path.write_bytes(model[:place] + bytes([model[place] ^ 1 << bit]) + model[place + 1 :])
            with contextlib.suppress(errors.DataError):
                tokenizer.Tokenizer(path)


def test_long_texts_are_learned_from(tmp_path):
    long = [" ".join(["wortspiel"] * 20_000)] * 2
    made = tokenizer.train([*long, "ab"], tmp_path / "t.model", vocabulary=60)
    assert len(made.encode(["wortspiel"])[0]) == 1
