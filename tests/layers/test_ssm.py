import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import ssm


def arguments(*, t=13, inner=3, state=2, seed=0):
    keys = jax.random.split(jax.random.key(seed), 5)

    def normal(key, *shape):
        return jax.random.normal(keys[key], shape)

    return {
        "x": normal(0, 2, t, inner),
        "time": jax.nn.softplus(normal(1, 2, t, inner)),
        "a": -jnp.exp(normal(2, state, inner)),
        "b": normal(3, 2, t, state),
        "c": normal(4, 2, t, state),
    }


def one_by_one(x, time, a, b, c, *, zeros, exp):
    """The definition, position by position, channel by channel, for NumPy and PyTorch alike."""
    y, (rows, length, inner), states = zeros(x.shape), x.shape, a.shape[0]
    for row in range(rows):
        for channel in range(inner):
            h = [0.0] * states
            for t in range(length):
                step = time[row, t, channel]
                h = [exp(step * a[n, channel]) * h[n] + step * b[row, t, n] * x[row, t, channel] for n in range(states)]
                y[row, t, channel] = sum(h[n] * c[row, t, n] for n in range(states))
    return y


SCANS = (ssm.selective_scan, ssm._in_parallel, ssm._in_sequence)  # the first is one of the others, by platform


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("t", [1, 2, 13])
def test_the_scan_equals_the_sequential_definition(t, scan):
    given = arguments(t=t)
    as_float64 = {name: np.array(value, np.float64) for name, value in given.items()}
    expected = one_by_one(**as_float64, zeros=np.zeros, exp=np.exp)
    np.testing.assert_allclose(jax.jit(scan)(**given), expected, atol=1e-5)


@pytest.mark.parametrize("scan", SCANS)
def test_gradients_equal_pytorchs_through_the_sequential_definition(scan):
    torch = pytest.importorskip("torch")
    given = arguments(t=6)
    ours = jax.jit(jax.grad(lambda given: jnp.square(scan(**given)).sum()))(given)
    theirs = {name: torch.tensor(np.array(v), dtype=torch.float64, requires_grad=True) for name, v in given.items()}

    def zeros(shape):
        return torch.zeros(shape, dtype=torch.float64)

    one_by_one(**theirs, zeros=zeros, exp=torch.exp).square().sum().backward()
    for name, gradient in ours.items():
        np.testing.assert_allclose(gradient, theirs[name].grad.numpy(), rtol=1e-4, atol=1e-4)


def test_step_sizes_start_between_a_thousandth_and_a_tenth():
    time = jax.nn.softplus(ssm._time_bias(jax.random.key(0), (1000,)))
    assert 0.99e-3 < float(time.min()) < 1.2e-3 and 0.09 < float(time.max()) <= 0.1001
    assert abs(float(jnp.median(jnp.log(time))) - np.log(1e-2)) < 0.2  # uniform in the logarithm


def test_the_mixer_equals_pytorch_and_is_causal():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    module, x = ssm.Mixer(inner=8, state=3, kernel_size=4), jax.random.normal(jax.random.key(0), (2, 7, 16))
    params = jax.jit(module.init)(jax.random.key(1), x)["params"]
    assert params["select"]["kernel"].shape == (8, 1 + 2 * 3)  # a rank of 16/16 = 1

    w = jax.tree.map(lambda leaf: torch.tensor(np.array(leaf)), params)
    u, z = (torch.tensor(np.array(x)) @ w["in"]["kernel"]).chunk(2, dim=-1)
    u = functional.conv1d(functional.pad(u.transpose(1, 2), (3, 0)), w["conv"]["kernel"].T[:, None], groups=8)
    u = functional.silu(u.transpose(1, 2) + w["conv"]["bias"])
    time, b, c = (u @ w["select"]["kernel"]).split([1, 3, 3], dim=-1)
    time = functional.softplus(time @ w["time"]["kernel"] + w["time_bias"])
    y = one_by_one(u, time, -w["a_log"].exp(), b, c, zeros=torch.zeros, exp=torch.exp) + w["skip"] * u
    expected = (y * functional.silu(z)) @ w["out"]["kernel"]
    np.testing.assert_allclose(jax.jit(module.apply)({"params": params}, x), expected.numpy(), atol=1e-5)

    gradient = jax.grad(lambda x: jax.jit(module.apply)({"params": params}, x)[0, 4].sum())(x)
    assert (np.abs(gradient[0]).sum(-1) > 0).tolist() == [position <= 4 for position in range(7)]
