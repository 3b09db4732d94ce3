import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers import dropout, linear, mlp, position


def test_sinusoids_by_hand():
    table = position.sinusoidal(jnp.array([0, 1, 7]), 4)
    expected = [[np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)] for p in (0, 1, 7)]
    np.testing.assert_allclose(table, expected, atol=1e-6)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_keeps_its_share_and_the_mean(rate):
    ones = jnp.ones((400, 500))
    y = dropout.Dropout(rate).apply({}, ones, train=True, rngs={"dropout": jax.random.key(0)})
    kept = float((y > 0).mean())
    assert abs(kept - (1 - rate)) < 1 / 512 + 4 * (rate * (1 - rate) / ones.size) ** 0.5
    assert abs(float(y.mean()) - 1) < 0.01
    assert set(np.unique(y)) == {0.0, np.float32(256 / dropout.kept_of_256(rate))}


def test_dropout_masks_are_uncorrelated_between_neighbours():
    """Four elements share a random word; they must not share their fate."""
    keep = np.array(dropout.keep_mask(jax.random.key(1), 0.5, (100_000,))).astype(float) - 0.5
    for lag in (1, 2, 3, 4):
        assert abs((keep[lag:] * keep[:-lag]).mean()) < 4 * 0.25 / 100_000**0.5


def test_bfloat16_products_round_operands_only():
    x, w = (jax.random.normal(jax.random.key(i), shape) for i, shape in ((0, (8, 64)), (1, (64, 4))))
    rounded = lambda a: np.array(a.astype(jnp.bfloat16)).astype(np.float64)  # noqa: E731
    np.testing.assert_allclose(linear.linear(x, w, dtype="bfloat16"), rounded(x) @ rounded(w), rtol=1e-5, atol=1e-5)
    dx, dw = jax.grad(lambda x, w: linear.linear(x, w, dtype="bfloat16").sum(), (0, 1))(x, w)
    np.testing.assert_allclose(dx, np.ones((8, 4)) @ rounded(w).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dw, rounded(x).T @ np.ones((8, 4)), rtol=1e-5, atol=1e-5)


def test_a_bias_and_its_gradient():
    x, w = (jax.random.normal(jax.random.key(i), shape) for i, shape in ((0, (2, 3, 8)), (1, (8, 4))))
    bias, weigh = jnp.arange(4.0), jax.random.normal(jax.random.key(2), (2, 3, 4))
    y, backward = jax.vjp(lambda *own: linear.linear(*own), x, w, bias)
    np.testing.assert_allclose(y, np.array(x) @ np.array(w) + np.arange(4), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(backward(weigh)[2], weigh.sum((0, 1)), rtol=1e-5, atol=1e-5)


def test_gelu_and_its_gradient_are_pytorchs():
    torch = pytest.importorskip("torch")
    x = np.concatenate([np.linspace(-12, 12, 1001), [0.0]]).astype("f")
    leaf = torch.tensor(x, requires_grad=True)
    out = torch.nn.functional.gelu(leaf)
    out.sum().backward()
    np.testing.assert_allclose(mlp.gelu(jnp.array(x)), out.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(mlp.gelu))(jnp.array(x)), leaf.grad.numpy(), atol=1e-6)
