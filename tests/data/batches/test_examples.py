"""What every kind of examples keeps to: shares make the whole, passes are the same, each record is evaluated once."""

import json

import numpy as np
import pytest

from lwt.data.batches import bucketed, examples, padded, pair_examples, sharding

LENGTHS = bucketed.bucket_lengths(48)
COUNT = 75


@pytest.fixture(params=["labelled", "one side", "masked", "images", "pairs"])
def given(request, labelled, masked, images, pairs):
    if request.param == "labelled":
        return labelled(COUNT)
    if request.param == "one side":
        return labelled(COUNT, sides=1)
    if request.param == "masked":
        return masked(limit=COUNT)
    if request.param == "images":
        return images(COUNT)
    return pair_examples.PairExamples.fitting(*pairs(COUNT), min_tokens=1, max_tokens=40)


def same(batch, other):
    assert batch.keys() == other.keys()
    for name in batch:
        np.testing.assert_array_equal(batch[name], other[name], err_msg=name)


def joined(batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


@pytest.mark.parametrize("kind", [bucketed.BucketedBatches, padded.PaddedBatches])
@pytest.mark.parametrize("processes", [2, 4])
def test_shares_make_the_whole(given, kind, processes):
    options = {"rows": 8, "lengths": LENGTHS, "seed": 2}
    whole = iter(kind(given, **options))
    parts = [iter(kind(given, **options, share=sharding.Share(p, processes))) for p in range(processes)]
    for _ in range(10):
        same(next(whole), joined([next(part) for part in parts]))


@pytest.mark.parametrize("stop", [0, 5, 33])
def test_resume_is_exact(given, stop):
    straight, resumed = (bucketed.BucketedBatches(given, rows=8, lengths=LENGTHS, seed=5, window=4) for _ in range(2))
    for _ in range(stop):
        next(straight)
    next(resumed)
    resumed.restore(json.loads(json.dumps(straight.state())))
    for _ in range(20):
        same(next(straight), next(resumed))


def test_an_evaluation_holds_every_record_once_and_filler_rows_are_zero(given):
    assert isinstance(given, examples.Examples) and len(given) == COUNT
    batches = padded.PaddedBatches(given, rows=8, lengths=LENGTHS)
    assert len(batches) == 10
    for batch, again in zip(batches, batches, strict=True):
        same(batch, again)
    rows = joined(list(batches)[-1:])
    found = np.concatenate([batch["example"] for batch in batches])
    assert sorted(found.tolist()) == [-1] * 5 + list(range(COUNT))
    assert not any(array[rows["example"] < 0].any() for name, array in rows.items() if name != "example")
