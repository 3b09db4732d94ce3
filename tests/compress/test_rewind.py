"""Rewinding combines the first weights of a run with its last mask, and training keeps the mask."""

import jax
import numpy as np
import pytest

from configs import common
from lwt import errors
from lwt.compress import rewind
from lwt.runs import assembly, experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")

NAME = "encoder/layer_0/mlp/fc1/kernel"


def test_a_ticket_starts_from_the_first_weights_and_keeps_its_zeros(tiny, tmp_path):
    reparam = dict(name="prune", sparsity=0.75, scope="global")
    config = tiny({"steps": 2, "optimizer.learning_rate": 0.05, "reparam": reparam})
    train.run(config, tmp_path / "pruned")
    pruned = experiment.load(tmp_path / "pruned", checkpoint="last")
    made, done = rewind.rewind(pruned, tmp_path / "ticket")
    assert done["kept"] == pytest.approx(0.25 * done["of"], rel=0.01)
    start = assembly.init_weights(pruned.model, jax.random.fold_in(jax.random.key(config.seed), 1))
    for name, w in made.weights.items():
        kept = pruned.weights[name] != 0 if name.endswith("kernel") else True
        np.testing.assert_allclose(w, start[name] * kept, rtol=1e-6)
    assert np.abs(pruned.weights[NAME] - made.weights[NAME]).max() > 0.01  # the pruned run had learned something

    config = common.of_run(tmp_path / "ticket")
    config.steps, config.reparam = 1, dict(name="prune", mask="zeros")
    train.run(config, tmp_path / "trained")
    trained = experiment.load(tmp_path / "trained")
    np.testing.assert_array_equal(trained.weights[NAME] == 0, made.weights[NAME] == 0)
    assert np.abs(trained.weights[NAME] - made.weights[NAME]).max() > 0.01
    with pytest.raises(errors.ConfigError, match="ticket has reparam.name='none'; rewinding needs 'prune'"):
        rewind.rewind(made, tmp_path / "again")
