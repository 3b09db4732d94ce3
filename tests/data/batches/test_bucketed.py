"""Rows and their batches: truncation, layout, nothing lost or doubled, exact resume, shares of processes."""

import collections
import json

import numpy as np
import pytest

from lwt import errors
from lwt.data import tokenizer
from lwt.data.batches import bucketed, tokenized
from lwt.data.kinds import labelled

CLS, SEP = tokenizer.CLS, tokenizer.SEP
LENGTHS = bucketed.lengths(48)


def examples(count, *, longest=40, sides=2, seed=0):
    """Random texts, the label of each is its index."""
    rng = np.random.default_rng(seed)
    texts = [[rng.integers(5, 99, rng.integers(1, longest + 1)).tolist() for _ in range(count)] for _ in range(sides)]
    return labelled.Examples(tuple(map(tokenized.Ragged.of, texts)), np.arange(count, dtype=np.int32), 48)


def one_by_one(first, second, limit):
    """Truncation as it is defined: a token at a time from the longer one, from the second if they are equal."""
    while first + second > limit:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


def test_the_longer_text_is_cut_first():
    cases = [(a, b, limit) for a in range(13) for b in range(13) for limit in (5, 6, 11)]
    first, second, limits = (np.array(column) for column in zip(*cases, strict=True))
    for limit in (5, 6, 11):
        at = limits == limit
        found = np.stack(bucketed.truncate(first[at], second[at], limit), axis=1)
        np.testing.assert_array_equal(found, [one_by_one(*case) for case in cases if case[2] == limit])


def test_lengths_are_few_and_near_each_other():
    assert bucketed.lengths(256) == (16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256)
    assert bucketed.lengths(40) == (16, 24, 32, 40) and bucketed.lengths(12) == (12,)
    with pytest.raises(errors.ConfigError, match="data.row_length=7 should be at least 8"):
        bucketed.lengths(7)


@pytest.mark.parametrize("sides", [1, 2])
def test_layout_of_a_row(sides):
    given = examples(30, sides=sides)
    for batch in bucketed.Padded(given, rows=8, lengths=LENGTHS):
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


@pytest.mark.parametrize("count, size", [(300, 8), (301, 8), (5, 8), (64, 16)])
def test_every_epoch_holds_every_record_once(count, size):
    batches = bucketed.Bucketed(examples(count), rows=size, lengths=LENGTHS, seed=3, window=5)
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


def test_padding_is_little_and_measured():
    batches = bucketed.Bucketed(examples(4000, longest=20), rows=16, lengths=LENGTHS)
    measured = batches.measure()
    parts = [next(batches) for _ in range(192)]
    real = sum((batch["segments"] > 0).sum() for batch in parts)
    places = sum(batch["segments"].size for batch in parts)
    assert measured["real_share"] == pytest.approx(real / places, abs=0.01) and measured["real_share"] > 0.8
    assert measured["batches"] == 250 and sum(measured["lengths"].values()) == pytest.approx(1)
    assert measured["positions"] == pytest.approx(places / 192, rel=0.02)


@pytest.mark.parametrize("stop", [0, 1, 9, 41])
def test_resume_is_exact(stop):
    straight, resumed = (bucketed.Bucketed(examples(100), rows=8, lengths=LENGTHS, seed=5, window=4) for _ in range(2))
    for _ in range(stop):
        next(straight)
    next(resumed)
    resumed.restore(json.loads(json.dumps(straight.state())))
    for _ in range(20):
        for (name, a), b in zip(next(straight).items(), next(resumed).values(), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("other", [{"seed": 6}, {"rows": 4}, {"lengths": (48,)}, {"examples": examples(100, seed=1)}])
def test_a_state_of_another_stream_is_refused(other):
    given = {"examples": examples(100), "rows": 8, "lengths": LENGTHS, "seed": 5}
    state = bucketed.Bucketed(given.pop("examples"), **given).state()
    given = {"examples": examples(100)} | given | other
    with pytest.raises(errors.DataError, match="saved with other data"):
        bucketed.Bucketed(given.pop("examples"), **given).restore(state)


@pytest.mark.parametrize("processes", [2, 4])
def test_shares_make_the_whole(processes):
    given = {"rows": 8, "lengths": LENGTHS, "seed": 2}
    shares = [{"process": p, "processes": processes} for p in range(processes)]
    for kind, take in ((bucketed.Bucketed, 40), (bucketed.Padded, 10)):
        whole = iter(kind(examples(75), **given))
        parts = [iter(kind(examples(75), **given, **share)) for share in shares]
        for _ in range(take):
            batch, pieces = next(whole), [next(part) for part in parts]
            for name in batch:
                np.testing.assert_array_equal(batch[name], np.concatenate([p[name] for p in pieces]), err_msg=name)
    with pytest.raises(errors.ConfigError, match="8 rows cannot be shared evenly among 3"):
        bucketed.Bucketed(examples(75), **given, processes=3)


def test_evaluation_drops_nothing():
    batches = bucketed.Padded(examples(75), rows=8, lengths=LENGTHS)
    found = np.concatenate([batch["example"] for batch in batches])
    assert sorted(found.tolist()) == [-1] * 5 + list(range(75)) and len(batches) == 10
    sizes = sum(side.lengths for side in examples(75).sides)
    assert batches.cut == (sizes > 45).sum() > 0
    assert {batch["ids"].shape for batch in batches} <= {(8, length) for length in LENGTHS}


def test_nothing_to_train_on():
    with pytest.raises(errors.DataError, match="no examples"):
        bucketed.Bucketed(examples(0), rows=8, lengths=LENGTHS)
