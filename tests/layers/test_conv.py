import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors
from lwt.layers import blocks, conv


def inputs(k, *, t, d=6, seed=0):
    keys = jax.random.split(jax.random.key(seed), 3)
    return [jax.random.normal(key, shape) for key, shape in zip(keys, ((2, t, d), (k, d), (2, t, d)))]


@pytest.mark.parametrize("k, t", [(1, 5), (4, 3), (4, 40), (32, 32), (32, 70), (37, 90)])
def test_value_and_gradients_equal_pytorchs(k, t):
    torch = pytest.importorskip("torch")
    x, kernel, dy = inputs(k, t=t)
    y, pull = jax.vjp(conv.causal, x, kernel)
    theirs_x, theirs_kernel = (torch.tensor(np.array(a), requires_grad=True) for a in (x, kernel))
    padded = torch.nn.functional.pad(theirs_x.transpose(1, 2), (k - 1, 0))
    theirs = torch.nn.functional.conv1d(padded, theirs_kernel.T[:, None], groups=6).transpose(1, 2)
    theirs.backward(torch.tensor(np.array(dy)))
    expected = (theirs.detach(), theirs_x.grad, theirs_kernel.grad)
    for ours, wanted in zip((y, *pull(dy)), expected):
        np.testing.assert_allclose(ours, wanted.numpy(), atol=2e-5)


@pytest.mark.parametrize("expansion", [1, 3])
def test_layer_equals_pytorchs_with_its_padding_cut_off(expansion):
    torch = pytest.importorskip("torch")
    x = inputs(4, t=9)[0]
    module = conv.DepthwiseConv(4, expansion)
    params = module.init(jax.random.key(1), x)["params"]
    params["bias"] = jnp.arange(6.0 * expansion)
    theirs = torch.nn.Conv1d(6, 6 * expansion, 4, groups=6, padding=3)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(np.array(params["kernel"])).T[:, None])
        theirs.bias.copy_(torch.tensor(np.array(params["bias"])))
        expected = theirs(torch.tensor(np.array(x)).transpose(1, 2))[:, :, :9].transpose(1, 2)
    np.testing.assert_allclose(module.apply({"params": params}, x), expected.numpy(), atol=1e-5)


def test_an_output_sees_its_last_k_inputs():
    x, kernel, _ = inputs(3, t=8)
    gradient = jax.grad(lambda x: conv.causal(x, kernel)[0, 5].sum())(x)
    assert (np.abs(gradient[0]).sum(-1) > 0).tolist() == [3 <= position <= 5 for position in range(8)]


def test_a_kernel_of_nothing_is_refused():
    with pytest.raises(errors.ConfigError, match="kernel_size=0"):
        conv.DepthwiseConv(0).init(jax.random.key(0), jnp.ones((1, 2, 3)))


def test_from_present_the_output_starts_as_the_input_with_a_trace_of_its_past():
    x = jax.random.normal(jax.random.key(0), (4, 50, 6))
    module = conv.DepthwiseConv(32, 2, start="present")
    y = module.init_with_output(jax.random.key(1), x)[0]
    past = y - jnp.repeat(x, 2, axis=-1)
    assert 0.02 < jnp.std(past[:, 32:]) < 0.1  # 31 taps of a tenth of U(-1/√32, 1/√32): 0.057
    assert jnp.all(past[:, 0] == 0)


def test_readers_do_not_compute_the_taps_again(monkeypatch):
    x, module = jnp.ones((4, 1, 16, 8)), conv.DepthwiseConv(kernel_size=8)
    params, own, shared = module.init(jax.random.key(0), x[0]), jnp.ones((4, 8, 2)), jnp.ones((8, 8))

    def forward(x, own):  # of a record with an adapter of its own
        hidden = jax.nn.silu(module.apply(params, x))[0]
        return hidden @ shared + (hidden @ own) @ own.T

    def slices():
        return jax.jit(jax.vmap(lambda *args: forward(*args))).lower(x, own).compile().as_text().count(" slice(")

    once = slices()
    monkeypatch.setattr(blocks, "once", lambda x: x)
    assert 3 * once <= slices()  # if this fails, XLA no longer needs `once`


def test_readers_of_the_gradient_do_not_compute_the_taps_again(monkeypatch):
    layer = conv.DepthwiseConv(8)

    def slices():
        def loss(x, params):
            x = jnp.sin(x)
            normed = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
            return (layer.apply(params, normed) ** 2).sum()

        x = jnp.ones((2, 64, 16))
        return jax.jit(jax.grad(loss)).lower(x, params).compile().as_text().count(" slice(")

    params = layer.init(jax.random.key(0), jnp.ones((2, 64, 16)))
    once = slices()
    monkeypatch.setattr(blocks, "once", lambda x: x)
    assert 2 * once <= slices()  # if this fails, XLA no longer needs `once`
