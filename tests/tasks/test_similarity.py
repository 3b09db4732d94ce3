"""Texts as vectors: what `experiment.embed` asks of a model."""

import jax
import jax.numpy as jnp
import numpy as np

from lwt.models import bert
from lwt.tasks import similarity
from tests.huggingface import small


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
