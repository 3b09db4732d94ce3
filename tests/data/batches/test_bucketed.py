"""Bucketed batches: every record once per epoch, little padding, and streams that do not mix."""

import collections

import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import bucketed, sharding

LENGTHS = bucketed.bucket_lengths(48)


def test_lengths_are_few_and_near_each_other():
    assert bucketed.bucket_lengths(256) == (16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)
    assert bucketed.bucket_lengths(40) == (16, 24, 32, 40) and bucketed.bucket_lengths(12) == (12,)
    with pytest.raises(errors.ConfigError, match="data.row_length=7 must be at least 8"):
        bucketed.bucket_lengths(7)


@pytest.mark.parametrize("count, size", [(300, 8), (301, 8), (5, 8), (64, 16)])
def test_every_epoch_holds_every_record_once(labelled, count, size):
    batches = bucketed.BucketedBatches(labelled(count), rows=size, lengths=LENGTHS, seed=3, window=5)
    window = max(1, min(5, count // size)) * size
    epochs = 3
    total = -(-epochs * count // window) * (window // size)  # whole windows: a record stays in its window
    found = []
    for _ in range(total):
        batch = next(batches)
        found += batch["label"].tolist()
        assert batch["ids"].shape[0] == size and batch["ids"].shape[1] in LENGTHS
        longest = (batch["segments"] > 0).sum(1).max()
        assert batch["ids"].shape[1] == min(length for length in LENGTHS if length >= longest)
    seen = collections.Counter(found)
    assert len(found) == total * size and set(seen) == set(range(count))
    assert max(seen.values()) - min(seen.values()) <= 1 and batches.epoch == total * size // count
    assert found[:count] != found[count : 2 * count]


def test_padding_is_little_and_measured(labelled):
    batches = bucketed.BucketedBatches(labelled(4000, longest=20), rows=16, lengths=LENGTHS)
    measured = batches.measure()
    parts = [next(batches) for _ in range(192)]
    real = sum((batch["segments"] > 0).sum() for batch in parts)
    places = sum(batch["segments"].size for batch in parts)
    assert measured["real_share"] == pytest.approx(real / places, abs=0.01) and measured["real_share"] > 0.8
    assert measured["batches"] == 250 and sum(measured["lengths"].values()) == pytest.approx(1)
    assert measured["positions"] == pytest.approx(places / 192, rel=0.02)


@pytest.mark.parametrize("other", [{"seed": 6}, {"rows": 4}, {"lengths": (48,)}, {"data": 1}])
def test_a_state_of_another_stream_is_refused(labelled, other):
    def make(*, data=0, **options):
        options = {"rows": 8, "lengths": LENGTHS, "seed": 5} | options
        return bucketed.BucketedBatches(labelled(100, seed=data), **options)

    with pytest.raises(errors.DataError, match="saved with other data"):
        make(**other).restore(make().state())
    assert make().state() == {"batch": 0, "stream": "130ee4ef2c13"}  # the form that checkpoints hold


def test_nothing_to_train_on(labelled):
    with pytest.raises(errors.DataError, match="no examples"):
        bucketed.BucketedBatches(labelled(0), rows=8, lengths=LENGTHS)
    with pytest.raises(errors.ConfigError, match="8 rows cannot be shared evenly among 3"):
        bucketed.BucketedBatches(labelled(75), rows=8, lengths=LENGTHS, share=sharding.Share(0, 3))


def test_masks_and_pairs_are_drawn_again_in_every_epoch(text, masked):
    given = masked(text(1, 3, longest=40), max_length=96)
    batches = bucketed.BucketedBatches(given, rows=2, lengths=bucketed.bucket_lengths(96))
    epochs = [next(batches) for _ in range(12)]
    assert len({batch["ids"].tobytes() for batch in epochs}) == 12
    assert len({batch["masked_positions"].tobytes() for batch in epochs}) == 12


def test_pairs_of_an_epoch(fitting, pairs):
    examples = fitting(200, longest=30)
    batches = bucketed.BucketedBatches(examples, rows=8, lengths=bucketed.bucket_lengths(32))
    seen = []
    for _ in range(200 // 8):
        batch = next(batches)
        assert set(np.unique(batch["source_segments"])) == {0, 1}
        assert batch["source"].shape[1] in bucketed.bucket_lengths(32)
        seen.extend(batch["source_segments"].sum(1) - 1)
    assert sorted(seen) == sorted(pairs(200, longest=30)[0].lengths)
