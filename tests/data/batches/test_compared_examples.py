"""Both texts of a pair have rows of their own, as if each were a record alone."""

import numpy as np

from lwt.data import tokenizer
from lwt.data.batches import compared_examples, labelled_examples


def test_each_text_has_the_row_it_would_have_alone(labelled):
    pairs = labelled(40)
    options = {"max_length": 24, "frame": tokenizer.FRAME}
    examples = compared_examples.ComparedExamples(pairs.sides, np.linspace(0, 5, 40, dtype=np.float32), **options)
    records = np.array([7, 0, 33])
    drawn = examples.draw(records, None)
    batch = examples.batch(drawn, 24, None)
    for side, before in zip(pairs.sides, ("", compared_examples.SECOND)):
        alone = labelled_examples.LabelledExamples((side,), None, **options)
        wanted = alone.batch(alone.draw(records, None), 24, None)
        for name in ("ids", "segments"):
            np.testing.assert_array_equal(batch[before + name], wanted[name])
    longest = np.maximum(*(side.lengths[records] for side in pairs.sides)) + 2
    np.testing.assert_array_equal(drawn["length"], np.minimum(longest, 24))
    np.testing.assert_allclose(batch["label"], examples.labels[records])
    assert examples.too_long(24) == sum(max(len(side[i]) for side in pairs.sides) > 22 for i in range(40))
