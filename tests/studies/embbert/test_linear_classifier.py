"""The linear classifier that small networks are measured against."""

import json

import numpy as np
import pytest

from lwt import errors
from studies.embbert import linear_classifier


def write(folder, record):
    folder.mkdir()
    rows = [record(*np.random.default_rng(i).permutation(["one", "two", "six"])) for i in range(120)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"data=folder:{folder}"


def test_pairs_of_words_are_features(tmp_path):
    task = write(tmp_path / "orders", lambda a, b, c: {"text": f"{a} {b}  {c.upper()}", "label": f"{a}-{b}"})
    found = linear_classifier.of_texts(task)
    assert found["test_accuracy"] == found["validation"] == 1.0 and found["test_mcc"] == 1.0
    assert (found["train"], found["test"], found["features"]) == (98, 12, 9)  # three words, six pairs


def test_both_texts_of_a_pair_are_features(tmp_path):
    task = write(tmp_path / "pairs", lambda a, b, c: {"text": c, "text_pair": a, "label": f"{a}{c}"})
    found = linear_classifier.of_texts(task)
    assert found["test_accuracy"] == 1.0 and found["features"] == 6


def test_records_of_the_test_set_can_be_left_out_of_training(tmp_path):
    task = write(tmp_path / "orders", lambda a, b, c: {"text": f"{a} {b}", "label": f"{a}-{b}"})  # six texts
    assert linear_classifier.of_texts(task)["train"] == 98
    with pytest.raises(errors.DataError, match="data.leak_free leaves no record for"):
        linear_classifier.of_texts(task, more="leak_free=true")


def test_numbers_as_labels_are_refused(tmp_path):
    task = write(tmp_path / "numbers", lambda a, b, c: {"text": a, "label": len(a) / 7})
    with pytest.raises(errors.ConfigError, match="has numbers as labels"):
        linear_classifier.of_texts(task)


def test_an_unknown_task_is_named():
    with pytest.raises(errors.ConfigError, match="snisp"):
        linear_classifier.of_texts("snisp")
