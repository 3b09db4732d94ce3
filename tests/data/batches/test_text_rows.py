"""The rows of a text encoder: which tokens a long pair loses, and where the special tokens stand."""

import numpy as np
import pytest

from lwt.data import tokenizer
from lwt.data.batches import bucketed, padded, text_rows

CLS, SEP = tokenizer.CLS, tokenizer.SEP


def one_by_one(first, second, limit):
    """Truncation as it is defined: a token at a time from the longer one, from the second if they are equal."""
    while first + second > limit:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


@pytest.mark.parametrize("limit", [5, 6, 11])
def test_the_longer_text_is_cut_first(limit):
    first, second = (side.ravel() for side in np.mgrid[:13, :13])
    left = np.stack(text_rows.truncate(first, second, limit=limit), axis=1)
    np.testing.assert_array_equal(left, [one_by_one(*sizes, limit) for sizes in zip(first, second, strict=True)])


@pytest.mark.parametrize("sides", [1, 2])
def test_layout_of_a_row(labelled, sides):
    given = labelled(30, sides=sides)
    for batch in padded.PaddedBatches(given, rows=8, lengths=bucketed.bucket_lengths(48)):
        for ids, segments, example in zip(batch["ids"], batch["segments"], batch["example"], strict=True):
            if example < 0:
                assert not ids.any() and not segments.any()
                continue
            texts = [side[example].tolist() for side in given.sides]
            sizes = [len(texts[0])] if sides == 1 else one_by_one(*map(len, texts), 45)
            wanted, kinds = [CLS], [1]
            for kind, (text, size) in enumerate(zip(texts, sizes, strict=True), start=1):
                wanted += [*text[: min(size, 46)], SEP]
                kinds += [kind] * (len(wanted) - len(kinds))
            padding = [0] * (len(ids) - len(wanted))
            assert ids.tolist() == wanted + padding and segments.tolist() == kinds + padding
