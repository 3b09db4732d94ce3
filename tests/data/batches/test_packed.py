"""Packed batches: no pair lost or doubled, exact resume, shares of processes, and what the arrays hold."""

import collections
import json

import numpy as np
import pytest

from lwt import errors
from lwt.data.batches import packed, pair_examples, sharding


@pytest.fixture
def make(fitting):
    def make(count=300, **options):
        options = {"rows": 8, "row_length": 32, "window": 64} | options
        longest = [options["row_length"] - 1, options.get("target_row_length", options["row_length"]) - 1]
        max_tokens = options.pop("max_tokens", longest)
        return packed.PackedBatches(fitting(count, max_tokens=max_tokens), **options)

    return make


def test_an_epoch_holds_every_pair_once_and_reads_back(pairs, make, unpack):
    source, target = pairs(700)
    batches = make(700, window=100, seed=3)
    rows = batches.measure()["rows"]
    found, first = [], next(batches)
    assert {name: (a.shape, a.dtype) for name, a in first.items()} == dict.fromkeys(first, ((8, 32), np.dtype("int32")))
    assert set(first) == set(pair_examples.KEYS)
    found += unpack(first)
    for _ in range(3 * rows // 8):
        found += unpack(next(batches))
    wanted = collections.Counter((tuple(s.tolist()), tuple(t.tolist())) for s, t in zip(source, target, strict=True))
    counts = collections.Counter(found)
    assert counts.keys() == wanted.keys()
    assert set(counts.values()) <= {2, 3, 4}  # three epochs, less or more what the last batch holds
    epoch = collections.Counter(found[: len(source)])  # rows come in the order of the stream: the first epoch is first
    assert epoch == wanted
    assert found[: len(source)] != found[len(source) : 2 * len(source)]


def test_real_share_is_measured(make):
    batches = make(500, rows=4, row_length=48, window=200)
    measured = batches.measure()
    real = sum((batch["target_segments"] > 0).sum() for batch in (next(batches) for _ in range(measured["rows"] // 4)))
    assert real / (measured["rows"] // 4 * 4 * 48) == pytest.approx(measured["target_share"], abs=0.05)
    assert 0.8 < max(measured["source_share"], measured["target_share"]) <= 1


def test_a_large_epoch_is_measured_by_its_first_windows(make, monkeypatch):
    batches = make(700, window=20)
    whole = batches.measure()
    monkeypatch.setattr(packed, "MEASURED", 10)
    part = batches.measure()
    assert part["rows"] == pytest.approx(whole["rows"], rel=0.1) and part["rows"] != whole["rows"]


def test_packing_fits_and_wastes_little():
    rng = np.random.default_rng(0)
    source = rng.integers(2, 33, 3000)
    target = np.clip(source + rng.integers(-3, 4, 3000), 1, 32)
    row = packed.pack(source, target, lengths=(64, 64))
    for side in (source, target):
        assert np.bincount(row, weights=side).max() <= 64
    assert set(row) == set(range(row.max() + 1))
    assert source.sum() / (64 * (row.max() + 1)) > 0.97
    assert packed.pack(np.array([64, 1, 1]), np.array([1, 64, 1]), lengths=(64, 64)).tolist().count(0) >= 1


def test_targets_that_are_shorter_get_shorter_rows():
    rng = np.random.default_rng(0)
    source = rng.integers(16, 65, 3000)
    target = np.clip(source // 4 + rng.integers(-2, 3, 3000), 1, 16)
    row = packed.pack(source, target, lengths=(64, 16))
    for side, length in ((source, 64), (target, 16)):
        assert np.bincount(row, weights=side).max() <= length
        assert side.sum() / (length * (row.max() + 1)) > 0.8


def test_a_target_side_of_its_own_length(make, unpack, pairs):
    batches = make(700, target_row_length=24, window=100)
    measured, batch = batches.measure(), next(batches)
    assert {array.shape for name, array in batch.items() if name.startswith("source")} == {(8, 32)}
    assert {array.shape for name, array in batch.items() if not name.startswith("source")} == {(8, 24)}
    found = unpack(batch)
    for _ in range(measured["rows"] // 8):
        found += unpack(next(batches))
    wanted = {(tuple(s.tolist()), tuple(t.tolist())) for s, t in zip(*pairs(700), strict=True)}
    assert set(found) == wanted
    real = [sum(len(pair[side]) + 1 for pair in wanted) for side in (0, 1)]
    assert measured["source_share"] == pytest.approx(real[0] / (measured["rows"] * 32))
    assert measured["target_share"] == pytest.approx(real[1] / (measured["rows"] * 24))


@pytest.mark.parametrize("stop", [0, 1, 7, 23, 60])
def test_resume_is_exact(make, stop):
    straight, resumed = make(seed=5), make(seed=5)
    for _ in range(stop):
        next(straight)
    assert straight.state().keys() == resumed.state().keys() == {"epoch", "window", "row", "stream"}
    resumed.restore(json.loads(json.dumps(straight.state())))
    for _ in range(40):
        for (name, a), b in zip(next(straight).items(), next(resumed).values(), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("other", [{"seed": 6}, {"row_length": 40}, {"target_row_length": 24}, {"max_tokens": 10}])
def test_a_state_of_another_stream_is_refused(make, other):
    assert make(seed=5).state() == {
        "epoch": 0,
        "window": 0,
        "row": 0,
        "stream": "afe9544d573f",
    }  # in checkpoints
    with pytest.raises(errors.DataError, match="saved with other data"):
        make(100, **{"seed": 5} | other).restore(make(100, seed=5).state())


@pytest.mark.parametrize("processes", [2, 4])
def test_shares_make_the_whole(make, processes):
    whole, parts = make(), [make(share=sharding.Share(p, processes)) for p in range(processes)]
    for _ in range(30):
        batch, shares = next(whole), [next(part) for part in parts]
        for name in batch:
            np.testing.assert_array_equal(batch[name], np.concatenate([share[name] for share in shares]), err_msg=name)
    with pytest.raises(errors.ConfigError, match="8 rows cannot be shared evenly among 3"):
        make(share=sharding.Share(0, 3))
