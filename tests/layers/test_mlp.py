"""The exact GELU and its gradient are PyTorch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import mlp


def test_gelu_and_its_gradient_are_pytorchs():
    torch = pytest.importorskip("torch")
    x = np.concatenate([np.linspace(-12, 12, 1001), [0.0]]).astype("f")
    leaf = torch.tensor(x, requires_grad=True)
    out = torch.nn.functional.gelu(leaf)
    out.sum().backward()
    np.testing.assert_allclose(mlp.gelu(jnp.array(x)), out.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(mlp.gelu))(jnp.array(x)), leaf.grad.numpy(), atol=1e-6)
