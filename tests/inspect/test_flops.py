"""Operations are counted as often as they are done."""

import jax
import jax.numpy as jnp
import pytest

from lwt.inspect import flops

W = jnp.ones((32, 32))
PRODUCT = 2 * 32**3


def layers(x):
    return jax.lax.scan(lambda y, _: (jnp.tanh(y @ W), None), x, None, length=7)[0]


def rows(x):
    """A loop within a loop."""
    return jax.lax.map(lambda row: jax.lax.fori_loop(0, 3, lambda _, y: y @ W, row), jnp.stack([x] * 5))


@jax.custom_vjp
def own(x):
    return layers(x)


own.defvjp(lambda x: (layers(x), x), lambda x, d: (layers(d),))


@pytest.mark.parametrize(
    ("function", "products"),
    [
        (lambda x: x @ W, 1),
        (layers, 7),
        (rows, 15),
        (own, 7),
        (jax.grad(lambda x: layers(x).sum()), 14),
        (lambda x: layers(x)[0, 0] * 0 + (x @ W), 8),
        (lambda x: (layers(x), x @ W)[1], 1),  # the loop is dead code
    ],
)
def test_loops_are_counted_as_often_as_they_run(function, products):
    traced = jax.jit(function).trace(jnp.ones((32, 32)))
    found = flops.count(traced)
    assert products * PRODUCT <= found < 1.05 * products * PRODUCT
    assert found == flops.count(traced, traced.lower().compile())
