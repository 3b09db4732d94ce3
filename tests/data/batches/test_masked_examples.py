"""Pre-training examples: which pairs follow each other, which tokens are masked, and how lines are joined."""

import numpy as np
import pytest

from lwt import errors
from lwt.data import tokenizer
from lwt.data.batches import bucketed, masked_examples, padded

LENGTHS = bucketed.bucket_lengths(48)


def sides(ids, segments):
    """The two texts of each row, with the layout checked on the way."""
    for row, kinds in zip(ids, segments, strict=True):
        real = row[kinds > 0]
        assert row[0] == tokenizer.CLS and not row[kinds == 0].any() and real[-1] == tokenizer.SEP
        assert (np.flatnonzero(real == tokenizer.SEP) == [(kinds == 1).sum() - 1, len(real) - 1]).all()
        yield row[kinds == 1][1:-1].tolist(), row[kinds == 2][:-1].tolist()


def test_half_of_the_pairs_follow_each_other_and_the_labels_are_true(text, masked, unmask):
    given = text()
    lines = [given.values[a:b].tolist() for a, b in zip(given.offsets[:-1], given.offsets[1:], strict=True)]
    batches = bucketed.BucketedBatches(masked(given), rows=16, lengths=LENGTHS)
    next_labels, firsts = [], []
    for _ in range(280 // 16):
        batch = next(batches)
        for (first, second), label in zip(sides(unmask(batch), batch["segments"]), batch["next_sentence"], strict=True):
            b = second[0] - 5  # a second text keeps its start, a first one its end
            assert second == lines[b][: len(second)] and len(second) > 0
            (a,) = [i for i, line in enumerate(lines) if line[len(line) - len(first) :] == first]
            assert (b == a + 1 and b // 15 == a // 15) if label else b // 15 != a // 15
            assert len(first) + len(second) == min(45, len(lines[a]) + len(lines[b]))
            next_labels.append(label)
            firsts.append(a)
    assert sum(next_labels) == len(next_labels) / 2 and len(set(firsts)) == len(firsts) == 272


def test_a_lone_document_draws_from_the_rest_of_itself(text, masked, unmask):
    batch = next(iter(padded.PaddedBatches(masked(text(1, 40)), rows=39, lengths=LENGTHS)))
    for (first, second), label in zip(sides(unmask(batch), batch["segments"]), batch["next_sentence"], strict=True):
        if first[0] < 100:  # not cut
            assert (second[0] - first[0] == 1) == bool(label) and second[0] != first[0]


@pytest.mark.parametrize("given", [*masked_examples.PRESETS, {"rate": 0.3, "mask": 0.5, "random": 0.4, "keep": 0.1}])
def test_shares_of_the_masking_rule(given, text, masked, unmask):
    rule = masked_examples.Masking.of(given)
    batches = bucketed.BucketedBatches(masked(text(60, 60), masking=given), rows=32, lengths=LENGTHS)
    eligible = chosen = 0
    kinds = np.zeros(3)
    for _ in range(100):
        batch = next(batches)
        before, after, weights = unmask(batch), batch["ids"], batch["masked_weights"] > 0
        row = np.broadcast_to(np.arange(32)[:, None], weights.shape)[weights]
        place = batch["masked_positions"][weights]
        assert len(set(zip(row.tolist(), place.tolist(), strict=True))) == len(row)  # no place twice
        assert (before[row, place] >= 5).all() and (batch["segments"][row, place] > 0).all()  # nothing special
        changed = np.zeros(before.shape, bool)
        changed[row, place] = True
        assert (before == after)[~changed].all()
        shown, target = after[row, place], batch["masked_targets"][weights]
        random = (shown != tokenizer.MASK) & (shown != target)
        assert (shown[random] >= 5).all() and (shown[random] < 4000).all()
        kinds += [(shown == tokenizer.MASK).sum(), random.sum(), (shown == target).sum()]
        eligible += (before >= 5).sum()
        chosen += len(row)
        count = np.bincount(row, minlength=32)
        assert (np.abs(count - rule.rate * (before >= 5).sum(1)) < 1).all()
        assert batch["masked_weights"].shape[1] == int(np.ceil(rule.rate * (before.shape[1] - 3)))
    assert chosen / eligible == pytest.approx(rule.rate, abs=0.003)
    spread = 4 * np.sqrt(0.25 / chosen)
    np.testing.assert_allclose(kinds / chosen, [rule.mask, rule.random, rule.keep], atol=spread)


def test_segments_of_several_lines(text, masked):
    given = text(5, 12, longest=30)
    bounds, documents = masked_examples.join_lines(given, 40)
    sizes = np.diff(bounds)
    assert sizes.max() <= 40 and bounds[documents].tolist() == given.offsets[given.documents].tolist()
    for start, stop in zip(documents[:-1], documents[1:], strict=True):  # no two neighbours would fit into one
        assert set(bounds[start:stop].tolist()) <= set(given.offsets.tolist())
        ends = given.offsets[np.searchsorted(given.offsets, bounds[start + 1 : stop], side="right")]
        assert (ends - bounds[start : stop - 1] > 40).all()
    bounds, _ = masked_examples.join_lines(given, 7)  # lines are longer than that
    assert (
        0 < np.diff(bounds).min() and np.diff(bounds).max() == 7 and set(given.offsets[given.documents]) <= set(bounds)
    )
    batch = next(bucketed.BucketedBatches(masked(given, join=22), rows=8, lengths=LENGTHS))
    assert (batch["segments"] > 0).sum(1).max() > 35


def test_masking_rules_and_documents_that_are_refused(text, masked):
    with pytest.raises(errors.ConfigError, match="data.masking='papre'; did you mean 'paper'"):
        masked_examples.Masking.of("papre")
    with pytest.raises(errors.ConfigError, match="must sum to 1"):
        masked_examples.Masking.of({"rate": 0.1, "mask": 0.8, "random": 0.1, "keep": 0.2})
    with pytest.raises(errors.ConfigError, match="data.masking has rate; it must have rate, mask, random, keep"):
        masked_examples.Masking.of({"rate": 0.1})
    with pytest.raises(errors.DataError, match="none of 9 documents .a blank line ends one. has two segments"):
        masked(text(9, 1))
