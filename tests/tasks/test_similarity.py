"""Texts as vectors, and how alike two of them are."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.models import bert
from lwt.runs import config_file, experiment
from lwt.tasks import similarity
from lwt.training import train
from tests.huggingface import small

pytestmark = pytest.mark.usefixtures("compiled_once")


def test_vectors_do_not_depend_on_padding():
    model = bert.Bert(30, **small.SIZES, pool="mean", normalize=True)
    batch = {
        "ids": jnp.array([[2, 9, 8, 3, 0, 0], [2, 9, 8, 3, 7, 7]]),
        "segments": jnp.array([[1, 1, 1, 1, 0, 0]] * 2),
    }
    variables = model.init(jax.random.key(0), batch)

    def apply(*args, **options):
        return model.apply(variables, *args, **options)

    found = np.asarray(similarity.Vectors().predict(apply, batch))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    states = np.asarray(apply(batch, method="hidden_states"))[0, :4].mean(0)
    np.testing.assert_allclose(similarity.Vectors(normalize=False).predict(apply, batch)[0], states, atol=1e-6)


def test_a_run_that_learns_vectors(tmp_path, monkeypatch):
    """Its answer is the cosine of the vectors of the two texts, and its score that of the correlation."""
    monkeypatch.setenv("LWT_CACHE", str(tmp_path / "cache"))
    words = "old new cold warm house sea wind".split()
    rows = [{"a": f"the {words[i % 7]} house", "b": f"an {words[i % 5]} sea", "label": i % 9 / 2} for i in range(60)]
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small.write(tmp_path / "bert")
    arguments = f"base=hf:{tmp_path}/bert,data=folder:{tmp_path}/pairs,text=a,pair=b,task=similarity,high=5,method=lora"
    config = config_file.load(f"configs/finetune.py:{arguments},pool=mean,length=16,smoke=true")
    figures = train.run(config, str(tmp_path / "run"))
    assert figures["loss"] > 0 and -1 <= figures["spearman"] <= 1
    run = experiment.load(tmp_path / "run", checkpoint="last")
    pairs = [("the old house", "an old sea"), ("a wind", "the warm sea")]
    vectors = [run.embed(list(side), normalize=True) for side in zip(*pairs)]
    answers = np.array([*map(float, run.predict(["\t".join(pair) for pair in pairs]))])
    np.testing.assert_allclose(answers, (vectors[0] * vectors[1]).sum(1), atol=1e-4)


def test_the_scale_of_the_labels():
    task = similarity.Similarity(low=1, high=5)
    figures = task.score([0.0, 0.5, 1.0], [1.0, 3.0, 5.0])
    assert figures["loss"] == 0 and figures["pearson"] == pytest.approx(1) and figures["spearman"] == pytest.approx(1)
    with pytest.raises(errors.ConfigError, match="task.low=2 must be less than task.high=1"):
        similarity.Similarity(low=2)
