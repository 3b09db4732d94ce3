import jax
import numpy as np
import pytest

from lwt import errors
from lwt.layers import norm


@pytest.mark.parametrize("kind", norm.KINDS)
def test_values_and_gradients_are_pytorchs(kind):
    torch = pytest.importorskip("torch")
    x = 3 * jax.random.normal(jax.random.key(0), (2, 5, 8)) + 1
    module = norm.make(kind, epsilon=1e-5)
    params = jax.tree.map(lambda leaf: leaf + np.arange(8.0), module.init(jax.random.key(1), x)["params"])
    theirs = torch.nn.LayerNorm(8, eps=1e-5) if kind == "layer" else torch.nn.RMSNorm(8, eps=1e-5)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(np.array(params["scale"])))
        if kind == "layer":
            theirs.bias.copy_(torch.tensor(np.array(params["bias"])))
    weigh = np.random.default_rng(0).normal(size=x.shape).astype("f")
    y, backward = jax.vjp(lambda params, x: module.apply({"params": params}, x), params, x)
    d_params, dx = backward(weigh)
    leaf = torch.tensor(np.array(x), requires_grad=True)
    out = theirs(leaf)
    out.backward(torch.tensor(weigh))
    np.testing.assert_allclose(y, out.detach().numpy(), atol=2e-5)
    np.testing.assert_allclose(dx, leaf.grad.numpy(), atol=2e-5)
    for name, weight in {"scale": theirs.weight, "bias": getattr(theirs, "bias", None)}.items():
        if weight is not None:
            np.testing.assert_allclose(d_params[name], weight.grad.numpy(), atol=2e-5)


def test_another_kind_is_refused_by_name():
    with pytest.raises(errors.ConfigError, match="model.norm='rsm'.*did you mean 'rms'"):
        norm.make("rsm")
