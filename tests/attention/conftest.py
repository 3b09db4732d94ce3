import jax
import jax.numpy as jnp
import pytest

from lwt.attention.parts import masks


@pytest.fixture
def gradient_of_mix():
    """The compiled gradients of what lies between an attention's projections, at a length n, in one head."""

    def compiled(module, n, *, causal):
        def loss(q, k, v):
            return module.mix(q, {"key": k, "value": v}, mask=masks.Mask(causal=causal), dtype="float32").sum()

        array = jax.ShapeDtypeStruct((1, 1, n, module.width), jnp.float32)
        return jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(array, array, array).compile()

    return compiled
