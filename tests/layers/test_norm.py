import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import norm


@pytest.mark.parametrize("kind", norm.KINDS)
def test_equals_pytorchs(kind):
    torch = pytest.importorskip("torch")
    x = 3 * jax.random.normal(jax.random.key(0), (2, 5, 8)) + 1
    module = norm.make(kind, epsilon=1e-5)
    params = jax.tree.map(lambda leaf: leaf + np.arange(8.0), module.init(jax.random.key(1), x)["params"])
    theirs = torch.nn.LayerNorm(8, eps=1e-5) if kind == "layer" else torch.nn.RMSNorm(8, eps=1e-5)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(np.array(params["scale"])))
        if kind == "layer":
            theirs.bias.copy_(torch.tensor(np.array(params["bias"])))
    np.testing.assert_allclose(
        module.apply({"params": params}, x), theirs(torch.tensor(np.array(x))).detach().numpy(), atol=2e-5
    )


def test_another_kind_is_refused_by_name():
    with pytest.raises(errors.ConfigError, match="model.norm='rsm'.*did you mean 'rms'"):
        norm.make("rsm")
