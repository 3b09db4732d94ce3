"""The divergence from a teacher equals derivations by hand and the formulas over whole arrays of logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lwt.layers.losses import soft_loss


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_value_and_gradient_by_hand(temperature):
    """In float64: T² KL, whose derivative by z is T (softmax(z/T) - softmax(z'/T))."""
    rng = np.random.default_rng(0)
    z, teacher = rng.normal(size=(2, 5, 7)) * 4
    q, p = (scipy.special.softmax(x / temperature, axis=-1) for x in (z, teacher))
    with jax.enable_x64(True):
        found = soft_loss.divergence(jnp.asarray(z), jnp.asarray(teacher), temperature=temperature)
        gradients = jax.grad(lambda *logits: soft_loss.divergence(*logits, temperature=temperature).sum(), (0, 1))(
            jnp.asarray(z), jnp.asarray(teacher)
        )
    np.testing.assert_allclose(found, temperature**2 * scipy.special.kl_div(p, q).sum(-1), atol=1e-12)
    np.testing.assert_allclose(gradients[0], temperature * (q - p), atol=1e-12)
    assert not gradients[1].any()


def test_hot_targets_are_logits():
    """For T → ∞ half of the variance of z - z' (Hinton et al. 2015, section 2.1)."""
    z, teacher = np.random.default_rng(1).normal(size=(2, 6, 9)) * 3
    with jax.enable_x64(True):
        found = soft_loss.divergence(jnp.asarray(z), jnp.asarray(teacher), temperature=1e5)
    np.testing.assert_allclose(found, (z - teacher).var(-1) / 2, rtol=1e-3)


@pytest.mark.parametrize("chunk, length", [(1, 8), (8, 8), (512, 8), (16, 11)])
def test_chunks_equal_the_whole(chunk, length):
    rng = np.random.default_rng(0)

    def array(*shape):
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    student = array(4, length, 16), array(40, 16), array(40)
    teacher = array(4, length, 24), array(40, 24), None
    weights = rng.random((4, length)) > 0.3

    def whole(student):
        z = student[0] @ student[1].T + student[2]
        return (weights * soft_loss.divergence(z, teacher[0] @ teacher[1].T, temperature=2.0)).sum()

    def ours(student):
        return soft_loss.soft_loss(student, teacher, weights=weights, temperature=2.0, chunk=chunk)

    (mine, gradients), (right, wanted) = (jax.jit(jax.value_and_grad(f))(student) for f in (ours, whole))
    np.testing.assert_allclose(mine, right, rtol=1e-6)
    for mine, right in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(mine, right, atol=2e-5)
