"""Batches of one input have few lengths."""

from lwt.demo import inputs
from lwt.runs import experiment, pretrained


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


def test_a_pre_training_run_reads_single_texts():
    run = experiment.load(str(pretrained.folder("embbert")))
    (batch,) = inputs.of(run).batches(("the  old ship",))
    frame, (tokens,) = run.data.frame, run.data.tokenizer.encode(["the old ship"])
    row = [*frame.begin, *tokens, *frame.end]
    assert batch["ids"][batch["example"] >= 0].tolist() == [row + [frame.pad] * (32 - len(row))]
