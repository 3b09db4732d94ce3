"""The frame of a row: how many special tokens stand around one text and around two."""

from lwt.data import frame, tokenizer


def test_the_tokens_of_a_row():
    assert [tokenizer.FRAME.count(texts) for texts in (1, 2)] == [2, 3]
    wide = frame.Frame(begin=(0,), between=(2, 2), end=(2,))
    assert [wide.count(texts) for texts in (1, 2)] == [2, 4] and wide.mask is None
