"""Batches of one input have few lengths."""

from lwt.demo import inputs


def test_lengths_of_rows():
    assert inputs.lengths(256) == (32, 64, 128, 256)
    assert inputs.lengths(65) == (32, 64, 65) and inputs.lengths(16) == (16,)


def test_a_batch_has_one_record_in_the_shortest_row(classifier, translator):
    texts = inputs.of(classifier)
    for words, length in ((3, 32), (40, 48)):
        (batch,) = texts.batches((" ".join(["old"] * words),))
        assert batch["ids"].shape[1] == length and (batch["example"] >= 0).sum() == 1
    (batch,) = inputs.of(translator).batches(("sort ascending: 8 13",), "8 13")
    assert batch["source"].shape == batch["inputs"].shape and batch["source"].shape[1] == 32
