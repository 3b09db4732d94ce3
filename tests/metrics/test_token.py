"""Token figures against scikit-learn and by hand."""

import math
import operator

import jax
import numpy as np
import pytest
import sklearn.metrics

from lwt import errors
from lwt.layers import vocabulary_loss
from lwt.metrics import token


def test_equals_scikit_learn_over_parts():
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(4, 9, 11)).astype(np.float32), rng.integers(0, 11, (4, 9))
    real = np.arange(9) < np.array([9, 3, 1, 5])[:, None]
    parts = [token.sums(logits[i : i + 2], targets[i : i + 2], real[i : i + 2]) for i in (0, 2)]
    figures = token.finish(jax.tree.map(operator.add, *parts))
    p = np.exp(logits[real]) / np.exp(logits[real]).sum(-1, keepdims=True)
    loss = sklearn.metrics.log_loss(targets[real], p / p.sum(-1, keepdims=True), labels=np.arange(11))
    assert figures["loss"] == pytest.approx(loss, rel=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(targets[real], p.argmax(-1)))
    assert figures["tokens"] == 18


def test_the_vocabulary_loss_returns_the_same_sums():
    rng = np.random.default_rng(1)
    hidden, table = rng.normal(size=(2, 6, 4)).astype(np.float32), rng.normal(size=(9, 4)).astype(np.float32)
    targets, weights = rng.integers(0, 9, (2, 6)), rng.integers(0, 2, (2, 6))
    direct = token.sums(hidden @ table.T, targets, weights)
    chunked = vocabulary_loss.vocabulary_loss(hidden, table, targets, weights)
    assert token.finish(direct) == pytest.approx(token.finish(chunked), rel=1e-5)


def test_by_hand():
    sums = {"loss": 5.0, "nll": 4 * math.log(2), "correct": 3.0, "tokens": 4.0}
    assert token.finish(sums) == pytest.approx({"loss": 1.25, "perplexity": 2.0, "accuracy": 0.75, "tokens": 4})
    assert token.finish(sums | {"nll": 1e5})["perplexity"] == math.inf
    with pytest.raises(errors.DataError, match="the split is empty"):
        token.finish(sums | {"tokens": 0.0})
