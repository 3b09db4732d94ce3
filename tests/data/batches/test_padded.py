"""Padded batches: nothing is dropped, rows are as short as the lengths allow, and long rows are cut."""

import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import bucketed, padded, pair_examples, sharding


def test_rows_are_as_short_as_the_lengths_allow(labelled):
    lengths = bucketed.bucket_lengths(48)
    shapes = [batch["ids"].shape for batch in padded.PaddedBatches(labelled(75), rows=8, lengths=lengths)]
    assert {rows for rows, _ in shapes} == {8} and {length for _, length in shapes} <= set(lengths)
    assert [length for _, length in shapes] == sorted((length for _, length in shapes), reverse=True)


@pytest.mark.parametrize("processes", [1, 2])
def test_pairs_longer_than_a_row_are_cut(pairs, unpack, processes):
    source, target = pairs(53, longest=40, shortest=0)
    examples, options = pair_examples.PairExamples.of_all(source, target), {"rows": 8, "lengths": (16, 32)}
    parts = [padded.PaddedBatches(examples, **options, share=sharding.Share(p, processes)) for p in range(processes)]
    batches = [{n: np.concatenate([part[n] for part in group]) for n in group[0]} for group in zip(*parts, strict=True)]
    assert len(batches) == len(parts[0]) == 7 and {batch["source"].shape for batch in batches} <= {(8, 16), (8, 32)}
    seen = np.concatenate([batch["example"] for batch in batches])
    assert sorted(seen.tolist()) == [-1] * 3 + list(range(53))
    for batch in batches:
        real = batch["example"] >= 0
        assert (batch["source_segments"].max(1) == real).all() and (batch["target_segments"].max(1) == real).all()
        read = unpack({name: array[real] for name, array in batch.items()})
        wanted = [(source[i][:31].tolist(), target[i][:31].tolist()) for i in batch["example"][real]]
        assert [(list(s), list(t)) for s, t in read] == wanted
    assert (source.lengths > 31).any() and (target.lengths > 31).any()


def test_sources_alone(pairs):
    source, _ = pairs(5)
    (batch,) = padded.PaddedBatches(pair_examples.PairExamples.of_all(source), rows=8, lengths=(32,))
    assert set(batch) == {"source", "source_segments", "source_positions", "example"}


def test_uneven_shares_are_refused(labelled):
    with pytest.raises(errors.ConfigError, match="8 rows cannot be shared evenly among 3"):
        padded.PaddedBatches(labelled(9), rows=8, lengths=(48,), share=sharding.Share(0, 3))
