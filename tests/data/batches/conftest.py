"""Examples of every kind, and two readers that check a batch while they read it back."""

import numpy as np
import pytest

from lwt.data import corpus, tokenizer
from lwt.data.batches import image_examples, labelled_examples, masked_examples, pair_examples, tokenized

PIECES = range(5, 4000)


def ragged(rows):
    return tokenized.RaggedArray.of(rows)


@pytest.fixture(scope="session")
def labelled():
    """``labelled(count) -> LabelledExamples`` of random texts; the label of each is its index."""

    def labelled(count, *, longest=40, sides=2, seed=0):
        rng = np.random.default_rng(seed)
        ids = [[rng.integers(5, 99, rng.integers(1, longest + 1)).tolist() for _ in range(count)] for _ in range(sides)]
        return labelled_examples.LabelledExamples(
            tuple(map(ragged, ids)), np.arange(count, dtype=np.int32), max_length=48, frame=tokenizer.FRAME
        )

    return labelled


@pytest.fixture(scope="session")
def pairs():
    """``pairs(count) -> (source, target)``, random; the first two ids of a source spell its index."""

    def pairs(count, *, longest=20, seed=0, shortest=1):
        rng = np.random.default_rng(seed)
        source = [
            [4 + i // 100, 4 + i % 100, *rng.integers(4, 104, rng.integers(0, longest - 1))] for i in range(count)
        ]
        target = [list(rng.integers(4, 104, rng.integers(shortest, longest + 1))) for _ in range(count)]
        return ragged(source), ragged(target)

    return pairs


@pytest.fixture(scope="session")
def fitting(pairs):
    """``fitting(count) -> PairExamples`` of `pairs` with `min_tokens` to `max_tokens` tokens."""

    def fitting(count, *, min_tokens=1, max_tokens=31, **other):
        return pair_examples.PairExamples.fitting(*pairs(count, **other), min_tokens=min_tokens, max_tokens=max_tokens)

    return fitting


@pytest.fixture(scope="session")
def text():
    """``text() -> Corpus``: the first id of a line is 5 + its number; the last id of the vocabulary does not occur."""

    def text(documents=20, lines=15, *, longest=30, seed=0):
        rng = np.random.default_rng(seed)
        count = documents * lines
        ids = [[5 + i, *rng.integers(1000, 3000, rng.integers(0, longest))] for i in range(count)]
        offsets = np.cumsum([0, *map(len, ids)])
        return corpus.Corpus(np.concatenate(ids).astype(np.uint16), offsets, np.arange(0, count + 1, lines), "test")

    return text


@pytest.fixture(scope="session")
def masked(text):
    """``masked() -> MaskedExamples`` of `text`."""

    def masked(given=None, *, masking="paper", max_length=48, **other):
        rule = masked_examples.Masking.of(masking)
        return masked_examples.MaskedExamples(
            given or text(), max_length=max_length, masking=rule, frame=tokenizer.FRAME, pieces=PIECES.stop, **other
        )

    return masked


@pytest.fixture(scope="session")
def images():
    """``images(count) -> ImageExamples``; the label of each is its index."""

    def images(count):
        pixels = np.random.default_rng(0).integers(0, 256, (count, 4, 4, 3), np.uint8)
        return image_examples.ImageExamples(pixels, np.arange(count), np.arange(count, dtype=np.int32), None, "x")

    return images


@pytest.fixture(scope="session")
def unpack():
    """``unpack(batch) -> [(source ids, target ids)]`` of a batch of pairs, an independent reading."""

    def unpack(batch):
        found = []
        for row in range(len(batch["source"])):
            for segment in range(1, max(batch["source_segments"][row].max(), batch["target_segments"][row].max()) + 1):
                s = batch["source_segments"][row] == segment
                t = batch["target_segments"][row] == segment
                source, targets, inputs = batch["source"][row][s], batch["targets"][row][t], batch["inputs"][row][t]
                assert source[-1] == tokenizer.EOS and targets[-1] == tokenizer.EOS and inputs[0] == tokenizer.BOS
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

    return unpack


@pytest.fixture(scope="session")
def unmask():
    """``unmask(batch) -> ids`` as they were before masking."""

    def unmask(batch):
        ids = batch["ids"].copy()
        masked = (batch[f"masked_{name}"] for name in ("positions", "targets", "weights"))
        for row, places, targets, weights in zip(ids, *masked, strict=True):
            row[places[weights > 0]] = targets[weights > 0]
        return ids

    return unmask
