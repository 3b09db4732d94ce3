"""Pre-training examples: pairs, masks and their shares, resume, and the way from a text file to a batch."""

import json

import ml_collections
import numpy as np
import pytest

from lwt import errors
from lwt.data import corpus, tokenizer
from lwt.data.batches import bucketed
from lwt.data.kinds import masked

PIECES = range(5, 4000)
LENGTHS = bucketed.lengths(48)


def text(documents=20, lines=15, *, longest=30, seed=0):
    """A corpus in which the first id of a line is 5 + its number; the last id of the vocabulary is never there."""
    rng = np.random.default_rng(seed)
    count = documents * lines
    found = [[5 + i, *rng.integers(1000, 3000, rng.integers(0, longest))] for i in range(count)]
    offsets = np.cumsum([0, *map(len, found)])
    return corpus.Corpus(np.concatenate(found).astype(np.uint16), offsets, np.arange(0, count + 1, lines), "test")


def examples(given=None, *, masking="paper", max_length=48, **other):
    rule = masked.Masking.of(masking)
    return masked.Examples(given or text(), max_length=max_length, masking=rule, pieces=PIECES, **other)


def restore(batch):
    """The ids before anything was masked."""
    ids = batch["ids"].copy()
    for row, places, targets, weights in zip(
        ids, *(batch[f"masked_{name}"] for name in ("positions", "targets", "weights")), strict=True
    ):
        row[places[weights > 0]] = targets[weights > 0]
    return ids


def sides(ids, segments):
    """The two texts of each row, with the layout checked on the way."""
    for row, kinds in zip(ids, segments, strict=True):
        real = row[kinds > 0]
        assert row[0] == tokenizer.CLS and not row[kinds == 0].any() and real[-1] == tokenizer.SEP
        assert (np.flatnonzero(real == tokenizer.SEP) == [(kinds == 1).sum() - 1, len(real) - 1]).all()
        yield row[kinds == 1][1:-1].tolist(), row[kinds == 2][:-1].tolist()


def test_half_of_the_pairs_follow_each_other_and_the_labels_are_true():
    given = text()
    lines = [given.values[a:b].tolist() for a, b in zip(given.offsets[:-1], given.offsets[1:], strict=True)]
    batches = bucketed.Bucketed(examples(given), rows=16, lengths=LENGTHS)
    next_labels, firsts = [], []
    for _ in range(280 // 16):
        batch = next(batches)
        for (first, second), label in zip(
            sides(restore(batch), batch["segments"]), batch["next_sentence"], strict=True
        ):
            b = second[0] - 5  # a second text keeps its start, a first one its end
            assert second == lines[b][: len(second)] and len(second) > 0
            (a,) = [i for i, line in enumerate(lines) if line[len(line) - len(first) :] == first]
            assert (b == a + 1 and b // 15 == a // 15) if label else b // 15 != a // 15
            assert len(first) + len(second) == min(45, len(lines[a]) + len(lines[b]))
            next_labels.append(label)
            firsts.append(a)
    assert sum(next_labels) == len(next_labels) / 2 and len(set(firsts)) == len(firsts) == 272


def test_a_lone_document_draws_from_the_rest_of_itself():
    batch = next(iter(bucketed.Padded(examples(text(1, 40)), rows=39, lengths=LENGTHS)))
    for (first, second), label in zip(sides(restore(batch), batch["segments"]), batch["next_sentence"], strict=True):
        if first[0] < 100:  # not cut
            assert (second[0] - first[0] == 1) == bool(label) and second[0] != first[0]


@pytest.mark.parametrize("given", [*masked.PRESETS, {"rate": 0.3, "mask": 0.5, "random": 0.4, "keep": 0.1}])
def test_shares_of_the_masking_rule(given):
    rule = masked.Masking.of(given)
    batches = bucketed.Bucketed(examples(text(60, 60), masking=given), rows=32, lengths=LENGTHS)
    eligible = chosen = 0
    kinds = np.zeros(3)
    for _ in range(100):
        batch = next(batches)
        before, after, weights = restore(batch), batch["ids"], batch["masked_weights"] > 0
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


def test_masks_and_pairs_are_drawn_anew_in_every_epoch():
    given = examples(text(1, 3, longest=40), max_length=96)
    batches = bucketed.Bucketed(given, rows=2, lengths=bucketed.lengths(96))
    epochs = [next(batches) for _ in range(12)]
    assert len({batch["ids"].tobytes() for batch in epochs}) == 12
    assert len({batch["masked_positions"].tobytes() for batch in epochs}) == 12


@pytest.mark.parametrize("stop", [0, 5, 33])
def test_resume_is_exact(stop):
    straight, resumed = (bucketed.Bucketed(examples(), rows=8, lengths=LENGTHS, seed=5, window=4) for _ in range(2))
    for _ in range(stop):
        next(straight)
    resumed.restore(json.loads(json.dumps(straight.state())))
    for _ in range(40):
        for (name, a), b in zip(next(straight).items(), next(resumed).values(), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("kind", [bucketed.Bucketed, bucketed.Padded])
def test_shares_make_the_whole(kind):
    whole = iter(kind(examples(), rows=8, lengths=LENGTHS))
    parts = [iter(kind(examples(), rows=8, lengths=LENGTHS, process=p, processes=4)) for p in range(4)]
    for _ in range(35):
        batch, pieces = next(whole), [next(part) for part in parts]
        for name in batch:
            np.testing.assert_array_equal(batch[name], np.concatenate([p[name] for p in pieces]), err_msg=name)


def test_evaluation_is_the_same_every_time_and_filler_rows_have_no_weight():
    batches = bucketed.Padded(examples(limit=21), rows=8, lengths=LENGTHS)
    for a, b in zip(batches, batches, strict=True):
        assert all((a[name] == b[name]).all() for name in a)
    last = list(batches)[-1]
    assert last["example"].tolist().count(-1) == 3 and not last["masked_weights"][last["example"] < 0].any()


def test_segments_of_several_lines():
    given = text(5, 12, longest=30)
    bounds, documents = masked.joined(given, 40)
    sizes = np.diff(bounds)
    assert sizes.max() <= 40 and bounds[documents].tolist() == given.offsets[given.documents].tolist()
    for start, stop in zip(documents[:-1], documents[1:], strict=True):  # no two neighbours would fit into one
        assert set(bounds[start:stop].tolist()) <= set(given.offsets.tolist())
        ends = given.offsets[np.searchsorted(given.offsets, bounds[start + 1 : stop], side="right")]
        assert (ends - bounds[start : stop - 1] > 40).all()
    bounds, _ = masked.joined(given, 7)  # lines are longer than that
    assert (
        0 < np.diff(bounds).min() and np.diff(bounds).max() == 7 and set(given.offsets[given.documents]) <= set(bounds)
    )
    batch = next(bucketed.Bucketed(examples(given, join=22), rows=8, lengths=LENGTHS))
    assert (batch["segments"] > 0).sum(1).max() > 35


def test_rules_that_are_none():
    with pytest.raises(errors.ConfigError, match="data.masking='papre'; did you mean 'paper'"):
        masked.Masking.of("papre")
    with pytest.raises(errors.ConfigError, match="should sum to 1"):
        masked.Masking.of({"rate": 0.1, "mask": 0.8, "random": 0.1, "keep": 0.2})
    with pytest.raises(errors.ConfigError, match="data.masking has rate; it should have rate, mask, random, keep"):
        masked.Masking.of({"rate": 0.1})
    with pytest.raises(errors.DataError, match="none of 9 documents has two segments"):
        examples(text(9, 1))


def test_from_text_file_to_batch(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_DATA", str(tmp_path))
    (tmp_path / "books").mkdir()
    rng = np.random.default_rng(0)
    for split, books in (("train", 9), ("validation", 2)):
        lines = [" ".join(rng.choice(["Été", "rain", "sea", "wind", "cold"], rng.integers(2, 9))) for _ in range(90)]
        pages = ["\n".join(lines[i::books]) for i in range(books)]
        (tmp_path / "books" / f"{split}.txt").write_text("\n\n".join(pages), encoding="utf-8")
    section = {
        **{
            "train": "folder:books",
            "validation": "folder:books",
            "test": "",
            "max_train_records": 0,
            "max_malformed": 0.01,
        },
        **{
            "clean": {"strip_accents": True},
            "masking": "code",
            "join": 0,
            "rows": 4,
            "row_length": 32,
            "eval_batch": 8,
        },
        **{"tokenizer": {"path": "", "vocabulary": 80, "split_digits": False}},
    }
    data = masked.Masked(ml_collections.ConfigDict(section), tmp_path / "run")
    batch, example = next(data.training()), data.example()
    kinds = {name: (array.dtype, array.shape[0], array.ndim) for name, array in batch.items()}
    assert kinds == {name: (array.dtype, array.shape[0], array.ndim) for name, array in example.items()}
    words = set(" ".join(data.tokenizer.decode(restore(batch))).split())
    assert words <= {"ete", "rain", "sea", "wind", "cold"} and len(words) > 3
    evaluation = data.evaluation("folder:books@validation")
    assert sum((part["example"] >= 0).sum() for part in data.batches(evaluation)) == 88
    assert len(evaluation.sources) == 88 and evaluation.references is None and data.named("x") == "folder:books@x"
    assert data.positions == data.training().measure()["positions"] > 0
