"""The sequence-to-sequence task: its metrics, its way of decoding, and wrong settings."""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

from lwt import errors, registry
from lwt.layers.losses import vocabulary_loss
from lwt.metrics import exact, translation
from lwt.tasks import translate

TEXTS = ["1 2 3", "the cat sat on the mat .", "A man sleeps"], ["1 2 3", "the cat sat on a mat .", "a man sleeps"]


def test_score_joins_the_figures_of_all_metrics():
    groups = ["a", "b", "b"]
    task = translate.Translate(metrics=("translation", "exact_match"), lowercase=False)
    wanted = translation.score(*TEXTS, groups=groups) | exact.score(*TEXTS, groups=groups)
    assert task.score(*TEXTS, groups=groups) == wanted
    assert translate.Translate().score(*TEXTS)["bleu"] > wanted["bleu"], "lowercase is the default"


@pytest.mark.parametrize(
    "settings, phrase",
    [
        ({}, "greedy"),
        ({"beams": 4}, "beam search, 4 beams, length penalty 0.6"),
        ({"beams": 2, "penalty": "power", "force_end": True}, "beam search, 2 beams, length penalty 0.6 (power)"),
        ({"temperature": 0.5, "top_k": 3}, "sampling, temperature 0.5, top k 3, top p 1"),
    ],
)
def test_decoding_follows_the_settings(settings, phrase):
    """A model that always gives ids 5, 6 and then eos the largest logits; sampling is at the same end of the scale."""
    task = translate.Translate(**settings)
    assert task.decoding() == phrase

    def apply(*args, method, **_):
        if method != "step":
            return {"self": {"index": jnp.zeros((), jnp.int32)}, "cross": {}} if method == "start" else None
        tokens, cache = args
        index = cache["self"]["index"]
        logits = 50.0 * jax.nn.one_hot(jnp.array([5, 6, 3])[index], 9)
        return jnp.tile(logits, (len(tokens), 1)), {"self": {"index": index + 1}, "cross": {}}

    batch = {"source_segments": np.array([[1, 1], [0, 0]]), "source": None, "source_positions": None}
    batch["example"] = np.array([0, -1])
    ids = task.generate(apply, batch, length=4, vocabulary=8)
    assert ids.tolist() == [[5, 6, 3, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"metrics": ("exact",)}, "task.metrics='exact': did you mean 'exact_match'"),
        ({"penalty": "powr"}, "task.penalty='powr': did you mean 'power'"),
        ({"rdrop": -1.0}, "task.rdrop=-1.0 should be positive or 0"),
        ({"beams": 0}, "task.beams=0 should be from 1 to 1000"),
        ({"beams": 100_000}, "task.beams=100000 should be from 1 to 1000"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        translate.Translate(**settings)


@pytest.mark.parametrize("name", ["classify", "regress", "masked_lm", "translate"])
def test_tasks_are_found_by_name(name):
    assert registry.TASKS.make({"name": name}, key="task", dtype="bfloat16").finish


def test_token_figures_equal_scikit_learn():
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(4, 9, 11)).astype(np.float32), rng.integers(0, 11, (4, 9))
    real = np.arange(9) < np.array([9, 3, 1, 5])[:, None]
    rows, table = (slice(0, 2), slice(2, 4)), np.eye(11, dtype=np.float32)
    parts = [vocabulary_loss.vocabulary_loss(logits[i], table, targets=targets[i], weights=real[i]) for i in rows]
    figures = translate.Translate().finish(jax.tree.map(operator.add, *parts))
    p = np.exp(logits[real]) / np.exp(logits[real]).sum(-1, keepdims=True)
    loss = sklearn.metrics.log_loss(targets[real], p / p.sum(-1, keepdims=True), labels=np.arange(11))
    assert figures["loss"] == pytest.approx(loss, rel=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(targets[real], p.argmax(-1)))
    assert figures["tokens"] == 18


def test_token_figures_by_hand():
    sums = {"loss": 5.0, "nll": 4 * math.log(2), "correct": 3.0, "tokens": 4.0}
    assert translate.Translate().finish(sums) == pytest.approx(
        {"loss": 1.25, "perplexity": 2.0, "accuracy": 0.75, "tokens": 4}
    )
    assert translate.Translate().finish(sums | {"nll": 1e5})["perplexity"] == math.inf
    with pytest.raises(errors.DataError, match="the split is empty"):
        translate.Translate().finish(sums | {"tokens": 0.0})
