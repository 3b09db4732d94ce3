"""Token figures equal scikit-learn's and hand-computed ones."""

import math
import operator

import jax
import numpy as np
import pytest
import sklearn.metrics

from lwt import errors
from lwt.layers.losses import vocabulary_loss
from lwt.metrics import token


def test_summed_parts_equal_scikit_learn():
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(4, 9, 11)).astype(np.float32), rng.integers(0, 11, (4, 9))
    real = np.arange(9) < np.array([9, 3, 1, 5])[:, None]
    rows, table = (slice(0, 2), slice(2, 4)), np.eye(11, dtype=np.float32)
    parts = [vocabulary_loss.vocabulary_loss(logits[i], table, targets=targets[i], weights=real[i]) for i in rows]
    figures = token.finish(jax.tree.map(operator.add, *parts))
    p = np.exp(logits[real]) / np.exp(logits[real]).sum(-1, keepdims=True)
    loss = sklearn.metrics.log_loss(targets[real], p / p.sum(-1, keepdims=True), labels=np.arange(11))
    assert figures["loss"] == pytest.approx(loss, rel=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(targets[real], p.argmax(-1)))
    assert figures["tokens"] == 18


def test_by_hand():
    sums = {"loss": 5.0, "nll": 4 * math.log(2), "correct": 3.0, "tokens": 4.0}
    assert token.finish(sums) == pytest.approx({"loss": 1.25, "perplexity": 2.0, "accuracy": 0.75, "tokens": 4})
    assert token.finish(sums | {"nll": 1e5})["perplexity"] == math.inf
    with pytest.raises(errors.DataError, match="the split is empty"):
        token.finish(sums | {"tokens": 0.0})
