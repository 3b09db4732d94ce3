"""The sequence-to-sequence task: its metrics, its way of decoding, and wrong settings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, registry
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
        ({"temperature": 0.5, "top_k": 3}, "sampling, temperature 0.5, top k 3, top p 1"),
    ],
)
def test_decoding_follows_the_settings(settings, phrase):
    """A model that always gives ids 5, 6 and then eos the largest logits; sampling is at the same end of the scale."""
    task = translate.Translate(**settings)
    assert task.decoding() == phrase

    def apply(*args, method):
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
        ({"beams": 0}, "task.beams=0 must"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        translate.Translate(**settings)


@pytest.mark.parametrize("name", ["classify", "regress", "masked_lm", "translate"])
def test_tasks_are_found_by_name(name):
    assert registry.TASKS.make({"name": name}, key="task", dtype="bfloat16").finish
