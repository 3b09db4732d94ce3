"""Batches: nothing lost or doubled, exact resume, shares of processes, and what the arrays hold."""

import collections
import json

import numpy as np
import pytest

from lwt import errors
from lwt.data import sources, text, tokenizer
from lwt.data.batches import packed, packing

BOS, EOS = tokenizer.BOS, tokenizer.EOS


def pairs(count, *, longest=20, seed=0, shortest=1):
    """Random pairs; the first two ids of a source spell its index, so that a batch can be read back."""
    rng = np.random.default_rng(seed)
    source = [[4 + i // 100, 4 + i % 100, *rng.integers(4, 104, rng.integers(0, longest - 1))] for i in range(count)]
    target = [list(rng.integers(4, 104, rng.integers(shortest, longest + 1))) for _ in range(count)]
    return packed.Ragged.of(source), packed.Ragged.of(target)


def unpack(batch):
    """Independent reading of a packed batch: [(source ids, target ids)], with every array checked on the way."""
    found = []
    for row in range(len(batch["source"])):
        for segment in range(1, max(batch["source_segments"][row].max(), batch["target_segments"][row].max()) + 1):
            s = batch["source_segments"][row] == segment
            t = batch["target_segments"][row] == segment
            source, targets, inputs = batch["source"][row][s], batch["targets"][row][t], batch["inputs"][row][t]
            assert source[-1] == EOS and targets[-1] == EOS and inputs[0] == BOS
            assert (inputs[1:] == targets[:-1]).all()
            assert (batch["source_positions"][row][s] == np.arange(s.sum())).all()
            assert (batch["target_positions"][row][t] == np.arange(t.sum())).all()
            found.append((tuple(source[:-1].tolist()), tuple(targets[:-1].tolist())))
        for side, names in (("source", ["source"]), ("target", ["inputs", "targets"])):
            empty = batch[f"{side}_segments"][row] == 0
            assert all((batch[name][row][empty] == 0).all() for name in [*names, f"{side}_positions"])
            segments = batch[f"{side}_segments"][row][~empty]
            assert (np.diff(segments) >= 0).all() and not empty[: len(segments)].any()
    return found


def test_packing_fits_and_wastes_little():
    rng = np.random.default_rng(0)
    source = rng.integers(2, 33, 3000)
    target = np.clip(source + rng.integers(-3, 4, 3000), 1, 32)
    row = packing.pack(source, target, 64)
    for side in (source, target):
        assert np.bincount(row, weights=side).max() <= 64
    assert set(row) == set(range(row.max() + 1))
    assert source.sum() / (64 * (row.max() + 1)) > 0.97
    assert packing.pack(np.array([64, 1, 1]), np.array([1, 64, 1]), 64).tolist().count(0) >= 1


def test_an_epoch_holds_every_pair_once_and_reads_back():
    source, target = pairs(700)
    batches = packed.PackedPairs(source, target, rows=8, row_length=32, window=100, seed=3)
    rows = batches.measure()["rows"]
    found, first = [], next(batches)
    assert {name: (a.shape, a.dtype) for name, a in first.items()} == dict.fromkeys(first, ((8, 32), np.dtype("int32")))
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


def test_real_share_is_measured():
    batches = packed.PackedPairs(*pairs(500), rows=4, row_length=48, window=200)
    measured = batches.measure()
    real = sum((batch["target_segments"] > 0).sum() for batch in (next(batches) for _ in range(measured["rows"] // 4)))
    assert real / (measured["rows"] // 4 * 4 * 48) == pytest.approx(measured["target_share"], abs=0.05)
    assert 0.8 < max(measured["source_share"], measured["target_share"]) <= 1


@pytest.mark.parametrize("stop", [0, 1, 7, 23, 60])
def test_resume_is_exact(stop):
    def make():
        return packed.PackedPairs(*pairs(300), rows=8, row_length=32, window=64, seed=5)

    straight, resumed = make(), make()
    for _ in range(stop):
        next(straight)
    resumed.restore(json.loads(json.dumps(straight.state())))
    for _ in range(40):
        for (name, a), b in zip(next(straight).items(), next(resumed).values(), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("other", [{"seed": 6}, {"row_length": 40}, {"max_tokens": 10}])
def test_a_state_of_another_stream_is_refused(other):
    batches = packed.PackedPairs(*pairs(100), **{"rows": 4, "row_length": 32, "seed": 5} | other)
    with pytest.raises(errors.DataError, match="saved with other data"):
        batches.restore(packed.PackedPairs(*pairs(100), rows=4, row_length=32, seed=5).state())


@pytest.mark.parametrize("processes", [2, 4])
def test_shares_make_the_whole(processes):
    def make(**share):
        return packed.PackedPairs(*pairs(300), rows=8, row_length=32, window=64, **share)

    whole, parts = make(), [make(process=p, processes=processes) for p in range(processes)]
    for _ in range(30):
        batch, shares = next(whole), [next(part) for part in parts]
        for name in batch:
            np.testing.assert_array_equal(batch[name], np.concatenate([share[name] for share in shares]), err_msg=name)
    with pytest.raises(errors.ConfigError, match="8 rows cannot be shared evenly among 3"):
        make(process=0, processes=3)


def test_lengths_outside_are_left_out_and_counted():
    source, target = pairs(200, longest=30, shortest=0)
    batches = packed.PackedPairs(source, target, rows=4, row_length=24, min_tokens=3, max_tokens=64)
    low, high = np.minimum(source.lengths, target.lengths), np.maximum(source.lengths, target.lengths)
    assert batches.pairs == ((low >= 3) & (high <= 23)).sum()
    assert batches.left_out == {"too short": (low < 3).sum(), "too long": ((high > 23) & (low >= 3)).sum()}
    with pytest.raises(errors.DataError, match="none of the 200 pairs has 50 to 60 tokens"):
        packed.PackedPairs(source, target, rows=4, row_length=64, min_tokens=50, max_tokens=60)


@pytest.mark.parametrize("processes", [1, 2])
def test_evaluation_batches_drop_nothing(processes):
    source, target = pairs(53, longest=40, shortest=0)
    args = {"batch": 8, "multiple": 16, "max_length": 32}
    parts = [packed.padded_batches(source, target, **args, process=p, processes=processes) for p in range(processes)]
    assert parts[0].cut == (source.lengths > 31).sum() + (target.lengths > 31).sum() > 0
    batches = [{n: np.concatenate([part[n] for part in group]) for n in group[0]} for group in zip(*parts, strict=True)]
    assert len(batches) == len(parts[0]) == 7 and {batch["source"].shape for batch in batches} <= {(8, 16), (8, 32)}
    examples = np.concatenate([batch["example"] for batch in batches])
    assert sorted(examples.tolist()) == [-1] * 3 + list(range(53))
    for batch in batches:
        real = batch["example"] >= 0
        assert (batch["source_segments"].max(1) == real).all() and (batch["target_segments"].max(1) == real).all()
        read = unpack({name: array[real] for name, array in batch.items()})
        wanted = [(source[i][:31].tolist(), target[i][:31].tolist()) for i in batch["example"][real]]
        assert [(list(s), list(t)) for s, t in read] == wanted
    alone = next(iter(packed.padded_batches(source, None, **args)))
    assert set(alone) == {"source", "source_segments", "source_positions", "example"}


def test_tokens_are_cached_by_content_and_a_damaged_cache_is_made_anew(tmp_path, monkeypatch):
    source = sources.load("generated:arithmetic,size=50")
    tokens = tokenizer.train([r["source"] for r in source], tmp_path / "t.model", vocabulary=100)
    args = (source, tokens, text.Cleaner(), ("source", "target"))
    first = packed.tokenize(*args, cache_dir=tmp_path / "cache")
    assert tokens.decode(list(first[1])) == [record["target"] for record in source]
    (cache,) = (tmp_path / "cache").iterdir()
    monkeypatch.setattr(tokenizer.Tokenizer, "encode", lambda *_: pytest.fail("the cache was not used"))
    cached = packed.tokenize(*args, cache_dir=tmp_path / "cache")
    monkeypatch.undo()
    packed.tokenize(source, tokens, text.Cleaner(lowercase=False), ("source", "target"), cache_dir=tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 2
    content = cache.read_bytes()
    for damage in (content[:200], content[:400] + bytes([content[400] ^ 1]) + content[401:], b""):
        cache.write_bytes(damage)
        again = packed.tokenize(*args, cache_dir=tmp_path / "cache")
        for a, b, c in zip(first, cached, again, strict=True):
            assert (a.values == b.values).all() and (a.values == c.values).all() and (a.offsets == c.offsets).all()
        assert cache.read_bytes() == content
