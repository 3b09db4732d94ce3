"""PeriodicLoRA: the end of a stage changes no weight, and stages add up to more than one rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.layers import linear
from lwt.reparam import compose, periodic_lora

NAME = "encoder/layer_0/self_attention/query/kernel"


def test_the_product_moves_into_the_sum_at_the_end_of_a_stage(base, moved):
    reparam = periodic_lora.PeriodicLoRA(rank=1, alpha=3.0, period=4, targets=".*(kernel|embedding)")
    adapter, key = reparam.init(jax.random.key(0), base), jax.random.key(1)
    advance = jax.jit(lambda leaves, step: reparam.advance(leaves, {}, gradients=leaves, step=step, key=key)[0])
    for stage in (1, 2):
        adapter |= {n: moved({n: leaf}, seed=stage)[n] for n, leaf in adapter.items() if not n.endswith("sum")}
        same = advance(adapter, 4 * stage - 1)
        assert all(np.array_equal(same[name], leaf) for name, leaf in adapter.items())
        after = advance(adapter, 4 * stage)
        whole, still = (reparam.expand(base, leaves, 0) for leaves in (adapter, after))
        for name in base:
            np.testing.assert_allclose(linear.dense(still[name]), linear.dense(whole[name]), atol=2e-6)
        assert not np.any(after[f"{NAME}/b"]) and np.any(after[f"{NAME}/a"] != adapter[f"{NAME}/a"])
        adapter = after
    assert np.linalg.matrix_rank(adapter[f"{NAME}/sum"], tol=1e-4) == 2  # of two stages of rank 1
    tables = [leaf for name, leaf in adapter.items() if name.startswith("embed/")]
    assert len(tables) == 3 and any(np.any(leaf) for leaf in tables)


def test_a_part_of_a_chain_advances_too(base, moved):
    parts = [{"name": "lora", "rank": 2}, {"name": "periodic_lora", "rank": 2, "period": 3}]
    reparam = compose.build({"name": "compose", "parts": parts})
    adapter = moved(reparam.init(jax.random.key(0), base))
    about = {"carried": {}, "gradients": adapter, "step": jnp.int32(3), "key": jax.random.key(1)}
    after, _ = compose.advance(reparam, adapter, **about)
    changed = {name.split("/")[0] for name, leaf in adapter.items() if not np.array_equal(after[name], leaf)}
    assert changed == {"1_periodic_lora"} and compose.advances(reparam)


@pytest.mark.parametrize("change", [{"start": "pissa"}, {"frozen_a": True}])
def test_only_the_usual_start_can_be_repeated(change):
    with pytest.raises(errors.ConfigError, match="start=lora, frozen_a=False"):
        periodic_lora.PeriodicLoRA(**change)
