"""Labelled texts: where a text that is too long loses tokens, and the labels of a batch."""

import numpy as np
import pytest

from lwt.data import tokenizer
from lwt.data.batches import labelled_examples, tokenized


@pytest.mark.parametrize("count", [1, 2])
def test_a_text_loses_its_end_or_its_middle(count):
    rng = np.random.default_rng(0)
    texts = [[list(range(5, 5 + n)) for n in rng.integers(0, 40, 60)] for _ in range(count)]
    sides = tuple(map(tokenized.RaggedArray.of, texts))
    limit = 20 - 1 - count
    for cut in labelled_examples.CUTS:
        examples = labelled_examples.LabelledExamples(sides, None, max_length=20, frame=tokenizer.FRAME, cut=cut)
        drawn = examples.draw(np.arange(60), None)
        ids = examples.batch(drawn, 20, None)["ids"]
        for i, sizes in enumerate(drawn["size"][:, :count]):
            wanted = [tokenizer.CLS]
            for side, kept in zip(texts, sizes, strict=True):
                whole, last = side[i], kept // 2 if cut == "middle" and kept < len(side[i]) else 0
                wanted += whole[: kept - last] + whole[len(whole) - last :] + [tokenizer.SEP]
            assert ids[i].tolist() == wanted + [0] * (20 - len(wanted))
            assert sum(sizes) == min(limit, sum(len(side[i]) for side in texts))


def test_labels_and_numbers_of_the_records_are_in_the_batch(labelled):
    given, records = labelled(9), np.array([7, 2])
    drawn = given.draw(records, None)
    batch = given.batch(drawn, 48, None)
    assert batch["label"].tolist() == batch["example"].tolist() == [7, 2]
    assert drawn["length"].tolist() == (batch["segments"] > 0).sum(1).tolist()
