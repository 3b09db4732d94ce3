"""The exact GELU is PyTorch's; activations keep their slopes in half of the memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import blocks, mlp
from lwt.machine import hardware


def test_gelu_and_its_gradient_are_pytorchs():
    torch = pytest.importorskip("torch")
    x = np.concatenate([np.linspace(-12, 12, 1001), [0.0]]).astype("f")
    leaf = torch.tensor(x, requires_grad=True)
    out = torch.nn.functional.gelu(leaf)
    out.sum().backward()
    np.testing.assert_allclose(mlp.gelu(jnp.array(x)), out.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(mlp.gelu))(jnp.array(x)), leaf.grad.numpy(), atol=1e-6)


@pytest.fixture(params=[True, False], ids=["barriers hold", "barriers do not hold"])
def barriers(request, monkeypatch):
    monkeypatch.setattr(blocks, "BARRIERS_HOLD", request.param)
    monkeypatch.setattr(hardware, "slow_in_bfloat16", lambda: False)
    return request.param


@pytest.mark.parametrize("name", mlp.ACTIVATIONS)
def test_the_gradient_is_that_of_the_function(name, barriers):
    del barriers
    function, x, dy = mlp.ACTIVATIONS[name], jnp.linspace(-6, 6, 240), jnp.cos(jnp.arange(240.0))
    wanted, pull = jax.vjp(function, x)
    for dtype, rounding in (("float32", 0), ("bfloat16", 2**-8)):
        found, pull_found = jax.jit(
            lambda x, dtype=dtype: jax.vjp(lambda x: mlp.activate(function, x, dtype=dtype), x)
        )(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(pull_found(dy)[0], pull(dy)[0], rtol=rounding, atol=1e-5)  # 1 + tanh(-6) cancels


def test_what_is_kept_for_the_backward_pass(barriers):
    x = jnp.linspace(-6, 6, 240)
    for dtype, kept in (("float32", "float32"), ("bfloat16", "bfloat16" if barriers else "float32")):
        _, pull = jax.vjp(lambda x, dtype=dtype: mlp.activate(mlp.gelu, x, dtype=dtype), x)
        assert [leaf.dtype for leaf in jax.tree.leaves(pull) if leaf.shape == x.shape] == [kept]
