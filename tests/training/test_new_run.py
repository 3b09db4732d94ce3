"""A run made of another run is a run: it is opened, evaluated, and started from."""

import json

import numpy as np
import pytest

from configs import common
from lwt import errors
from lwt.runs import experiment
from lwt.training import new_run, train


@pytest.fixture
def run(tiny, tmp_path):
    train.run(tiny({"steps": 2}), tmp_path / "run")
    return experiment.load(tmp_path / "run")


def test_the_same_weights_give_the_same_figures(run, tmp_path):
    made = new_run.write(run, tmp_path / "made", how={"method": "none"})
    assert made.evaluate()[0] == run.evaluate()[0]
    assert json.loads((tmp_path / "made/origin.json").read_text()) == {"run": run.workdir, "step": 2, "method": "none"}


def test_another_model_is_trained_on(run, tmp_path):
    narrow = dict(run.weights)
    for name, w in run.weights.items():
        narrow[name] = w[..., :16] if "fc1" in name else w[:16] if "fc2/kernel" in name else w
    new_run.write(run, tmp_path / "narrow", weights=narrow, model={"hidden": 16})
    config = common.of_run(tmp_path / "narrow")
    config.steps = 1
    train.run(config, tmp_path / "tuned")
    tuned = experiment.load(tmp_path / "tuned")
    assert tuned.config.model.hidden == 16 and tuned.step == 1
    name = "encoder/layer_0/mlp/fc1/kernel"
    np.testing.assert_allclose(tuned.weights[name], narrow[name], atol=2e-3)  # Adam moves by the rate, 1e-3


def test_what_does_not_fit_is_refused(run, tmp_path):
    with pytest.raises(errors.CheckpointError, match="fc1/bias"):
        new_run.write(run, tmp_path / "wrong", model={"hidden": 16})
    assert not (tmp_path / "wrong").exists()
    new_run.write(run, tmp_path / "made")
    with pytest.raises(errors.ConfigError, match="already holds a run"):
        new_run.write(run, tmp_path / "made")
    with pytest.raises(ValueError, match="base=.*nowhere"):
        common.of_run(tmp_path / "nowhere")
