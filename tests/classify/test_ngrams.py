"""A linear model of n-grams beside a network: what it counts, how it is fitted, and the run that adds the two."""

import json
import pathlib

import numpy as np
import pytest

import lwt
from lwt import errors
from lwt.classify import ngrams
from lwt.layers import linear
from lwt.metrics import calibration
from lwt.runs import config_file

ROOT = pathlib.Path(__file__).parents[2]
WORDS = "sun moon star rain snow wind leaf root tree bird fish wolf sand rock clay".split()
ROWS = 50


@pytest.fixture(scope="module")
def run(tmp_path_factory, untrained):
    """A tiny text classifier with random weights; the class of a text is that of its pair of words."""
    folder = tmp_path_factory.mktemp("ngrams")
    (folder / "texts").mkdir()
    generator = np.random.default_rng(0)
    with open(folder / "texts/train.jsonl", "w") as file:
        for i in range(200):
            others = generator.choice(WORDS[6:], size=4)
            pair = WORDS[i % 3], WORDS[3 + i % 3]
            line = {"text": " ".join([*others[:2], *pair, *others[2:]]), "label": "abc"[i % 3]}
            file.write(json.dumps(line) + "\n")
    spec = f"{ROOT}/configs/embbert_finetune.py:data=folder:{folder}/texts,vocabulary=160,smoke=true"
    config = config_file.load(spec)
    config.model.update(width=16, reduced=4, layers=1, kernel_size=3, max_length=32)
    config.data.row_length = 16
    return untrained(config, folder / "run")


@pytest.fixture(scope="module")
def made(run, tmp_path_factory):
    """``(run with n-grams, what was done)``."""
    return ngrams.add(run, tmp_path_factory.mktemp("made") / "run", weights=3 * ROWS + 2)


def of_validation(experiment):
    """``(logits, classes)`` of the validation part."""
    _, _, logits, labels = experiment.evaluate("validation")
    return np.asarray(logits), np.asarray(labels)


def test_the_run_adds_both_logits(run, made):
    after, done = made
    before, labels = of_validation(run)
    counts, known = ngrams.features(run, "validation", rows=ROWS)
    kernels, biases = ([linear.merge(x.weights)[name] for x in (run, after)] for name in (ngrams.KERNEL, ngrams.BIAS))
    scale = float(kernels[1].ravel()[0] / kernels[0].ravel()[0])
    bias = np.asarray(biases[1] - scale * biases[0])
    added = counts @ np.asarray(after.weights[ngrams.TABLE]) + bias
    logits = of_validation(lwt.load(after.workdir))[0]
    np.testing.assert_array_equal(known, labels)
    np.testing.assert_allclose(kernels[1], scale * kernels[0], rtol=1e-5)
    np.testing.assert_allclose(logits, scale * before + added, rtol=1e-4, atol=1e-4)
    assert np.abs(added).max() > 1 and after.config.model.ngram_weights == 3 * ROWS + 2
    assert done["weights"] == 3 * ROWS and done["validation_accuracy"]["both"] == np.mean(logits.argmax(1) == labels)


def test_it_learns_what_the_network_does_not(made):
    right = made[1]["validation_accuracy"]
    assert right["network"] < 0.7 and right["ngrams"] > 0.9 and right["both"] > 0.9


def test_the_counts_of_the_training_part(run):
    counts, labels = ngrams.features(run, "train", rows=ROWS)
    evaluation = run.data.evaluation("train")
    assert counts.shape == (len(evaluation.sources), ROWS)
    np.testing.assert_array_equal(labels, evaluation.references)
    tokens = np.array([len(ids) for ids in run.tokenizer.encode(evaluation.sources)]) + run.tokenizer.frame.count(1)
    sizes = 2 * np.minimum(tokens, 16) - 1  # tokens, and pairs of neighbours
    np.testing.assert_allclose(np.asarray(counts.sum(1)).ravel(), 4 * np.sqrt(sizes), rtol=1e-6)


def test_the_scales_have_the_lowest_loss():
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 3, 300)
    logits, added = (np.eye(3)[labels] * size + generator.normal(size=(300, 3)) for size in (2.0, 1.0))
    loss, (first, second) = ngrams.scales_of(logits, added, labels=labels)
    both = first * logits + second * added
    assert loss == pytest.approx(calibration.negative_log_likelihood(both, labels))
    assert calibration.fit_temperature(both, labels) == pytest.approx(1, abs=0.02)
    grid = np.geomspace(0.1, 10, 60)
    assert loss <= min(calibration.negative_log_likelihood(a * logits + b * added, labels) for a in grid for b in grid)


def test_two_classes_and_classes_without_a_record():
    counts = np.array([[2.0, 0.0], [0.0, 2.0]] * 10)
    labels = np.array([0, 1] * 10)
    table, bias = ngrams.fit(counts, labels, strength=1.0, classes=2)
    np.testing.assert_array_equal((counts @ table + bias).argmax(1), labels)
    np.testing.assert_allclose(table.sum(1), 0, atol=1e-6)
    wide, _ = ngrams.fit(counts, 2 * labels, strength=1.0, classes=4)
    np.testing.assert_array_equal(wide[:, [0, 2]], table)
    assert not wide[:, [1, 3]].any()


def test_what_it_does_not_take(run, made, tmp_path):
    assert ngrams.fits(run) and not ngrams.fits(made[0])
    with pytest.raises(errors.ConfigError, match="one class per text that has none yet"):
        ngrams.add(made[0], tmp_path / "x")
    with pytest.raises(errors.ConfigError, match="--weights=2 must be at least 3"):
        ngrams.add(run, tmp_path / "x", weights=2)
