"""Runs that were never trained, for what only needs a run's files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.training import build, checkpoint, experiment, run_config


@pytest.fixture(scope="session")
def untrained():
    """``untrained(config, workdir) -> the opened run``, with random weights, biases and scales too."""

    def untrained(config, workdir):
        run_config.keep(config, workdir)
        data, generator = build.make_data(config, workdir), np.random.default_rng(0)
        model = build.make_model(config, data.vocabulary, outputs=data.outputs)
        shapes = jax.eval_shape(lambda: build.init_weights(model, jax.random.key(0)))
        weights = {name: jnp.asarray(generator.normal(0, 0.3, w.shape), jnp.float32) for name, w in shapes.items()}
        with checkpoint.Checkpoints(workdir / "checkpoints") as checkpoints:
            identity = {**data.identity, "base": ""}
            state = {"trainable": trees.with_prefix(weights, "base")}
            checkpoints.save(0, state, data_state={"identity": identity}, wait=True)
        return experiment.load(workdir)

    return untrained
