"""Sentence pairs: the arrays of a row, and which pairs are left out."""

import numpy as np
import pytest

from lwt import errors
from lwt.data import tokenizer
from lwt.data.batches import bucketed, pair_examples, tokenized


def test_the_arrays_of_two_pairs_in_one_row():
    sides = (tokenized.RaggedArray.of(rows) for rows in ([[7, 8], [9]], [[5], [6, 7]]))
    examples = pair_examples.PairExamples.of_all(*sides)
    batch = examples.arrays(np.arange(2), np.zeros(2, np.int64), rows=1, lengths=(6, 6))
    begin, end = tokenizer.BOS, tokenizer.EOS
    wanted = {
        "source": [7, 8, end, 9, end, 0],
        "source_segments": [1, 1, 1, 2, 2, 0],
        "source_positions": [0, 1, 2, 0, 1, 0],
        "inputs": [begin, 5, begin, 6, 7, 0],
        "targets": [5, end, 6, 7, end, 0],
        "target_segments": [1, 1, 2, 2, 2, 0],
        "target_positions": [0, 1, 0, 1, 2, 0],
    }
    assert {name: array[0].tolist() for name, array in batch.items()} == wanted and set(wanted) == set(
        pair_examples.KEYS
    )


def test_pairs_outside_the_limits_are_left_out_and_counted(pairs, fitting):
    source, target = pairs(200, longest=30, shortest=0)
    examples = fitting(200, longest=30, shortest=0, min_tokens=3, max_tokens=23)
    low, high = np.minimum(source.lengths, target.lengths), np.maximum(source.lengths, target.lengths)
    kept = (low >= 3) & (high <= 23)
    assert len(examples) == kept.sum() and examples.pairs.tolist() == np.flatnonzero(kept).tolist()
    assert examples.left_out == {"too short": (low < 3).sum(), "too long": ((high > 23) & (low >= 3)).sum()}
    assert examples.tokens == [source.lengths[kept].sum(), target.lengths[kept].sum()]
    with pytest.raises(errors.DataError, match="none of the 200 pairs has 50 to 60 tokens.*see data.min_tokens"):
        fitting(200, min_tokens=50, max_tokens=60)


def test_other_pairs_are_another_stream(fitting):
    few, many = (
        bucketed.BucketedBatches(fitting(200, longest=30, max_tokens=most), rows=8, lengths=(32,)) for most in (20, 31)
    )
    with pytest.raises(errors.DataError, match="other data"):
        many.restore(few.state())
