"""A classifier that reads position 0 spares the last layer the others, and answers the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.attention import efficient, linformer
from lwt.models import bert, embbert

BATCH = {
    "ids": jax.random.randint(jax.random.key(0), (3, 12), 5, 40),
    "segments": (jnp.arange(12)[None] < jnp.array([[12], [7], [1]])).astype(jnp.int32),
}
COMMON = dict(vocabulary=40, max_length=12, head="classify", outputs=3)
MODELS = {
    "embbert": embbert.Embbert(width=16, reduced=4, kernel_size=3, layers=2, **COMMON),
    "bert": bert.Bert(width=16, hidden=24, **COMMON),
    "bert_inline": bert.Bert(width=16, hidden=24, norm_place="inline", attention=efficient.Attention, **COMMON),
    "pooler": bert.Bert(width=16, hidden=24, pooler=True, **COMMON),
    "cannot": bert.Bert(width=16, hidden=24, attention=linformer.Attention, **COMMON),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_state_at_position_0_is_that_of_all_states(model):
    variables = model.init(jax.random.key(1), BATCH)
    states = model.apply(variables, BATCH, method=model.hidden_states)
    first = model.apply(variables, BATCH, method=model.first_states)
    np.testing.assert_allclose(first[:, 0], states[:, 0], atol=2e-6)
    pooled = model.apply(variables, states, BATCH, method=model.pooled)
    head = variables["params"]["head"]["classifier"]
    np.testing.assert_allclose(model.apply(variables, BATCH), pooled @ head["kernel"] + head["bias"], atol=2e-6)


@pytest.mark.parametrize("model", [MODELS["embbert"], MODELS["bert"]], ids=["embbert", "bert"])
def test_it_costs_less(model):
    variables = model.init(jax.random.key(1), BATCH)

    def flops(method):
        return (
            jax.jit(lambda v: model.apply(v, BATCH, method=method)).lower(variables).compile().cost_analysis()["flops"]
        )

    assert flops(model.first_states) < 0.8 * flops(model.hidden_states)
