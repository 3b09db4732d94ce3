import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.models import embedder

SMALL = dict(vocabulary=24, max_length=12, width=8, reduced=4, head="classify", outputs=3)
BATCH = {
    "ids": jnp.array([[2, 5, 6, 4, 7, 4], [2, 9, 4, 0, 0, 0]]),
    "segments": jnp.array([[1, 1, 1, 1, 2, 2], [1, 1, 1, 0, 0, 0]]),
}


@pytest.mark.parametrize("kernel_size", [0, 3])
def test_the_classifier_reads_the_root_mean_square_of_the_real_positions(kernel_size, weights_of, run):
    model = embedder.Embedder(**SMALL, kernel_size=kernel_size)
    params = weights_of(model)["params"]
    logits = run(model, {"params": params}, BATCH)
    hidden = np.array(run(model, {"params": params}, BATCH, method="hidden_states"))
    for row, length in enumerate((6, 3)):
        pooled = np.sqrt((hidden[row, :length] ** 2).mean(0))
        head = params["head"]["classifier"]
        np.testing.assert_allclose(logits[row], pooled @ head["kernel"] + head["bias"], atol=1e-5)


def test_without_a_convolution_positions_do_not_meet_and_with_one_their_past_does(weights_of, run):
    for kernel_size, seen in ((0, [4]), (3, [2, 3, 4])):
        model = embedder.Embedder(**{**SMALL, "head": "none"}, kernel_size=kernel_size)
        params = weights_of(model)["params"]

        def state(p, model=model):
            return run(model, {"params": p}, BATCH)[0, 4, 0]

        gradient = jax.grad(state)(params)["embed"]["position"]
        assert np.flatnonzero(np.abs(gradient).sum(-1)).tolist() == seen


def test_wrong_fields_are_named():
    for change, message in ((dict(kernel_size=-1), "model.kernel_size=-1"), (dict(norm="rmsnorm"), "model.norm='rmsn")):
        model = embedder.Embedder(**SMALL).clone(**change)
        with pytest.raises(errors.ConfigError, match=message):
            model.init(jax.random.key(0), model.example())
