"""Starts from data: the directions that they promise, on made-up data of known structure."""

import numpy as np

from lwt.reparam.parts import starts

DRAW = np.random.default_rng(0)


def moments_of(x):
    rows = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    return rows.T @ rows


def test_lora_ga_steps_as_the_gradient_does():
    gradient = DRAW.normal(size=(9, 16))
    a, b = starts.lora_ga(gradient, 3)
    assert a.shape == (9, 3) and b.shape == (3, 16)
    for product in (a.T @ a, b @ b.T):
        np.testing.assert_allclose(product, np.eye(3) / 4, atol=1e-12)  # c² = √out / γ
    u, s, v = np.linalg.svd(gradient)
    step = a @ (a.T @ gradient) + (gradient @ b.T) @ b  # what a step of both factors adds to the weight, to first order
    best = sum(s[i] * np.outer(u[:, i], v[i]) for i in range(6)) / 4
    np.testing.assert_allclose(step, best, atol=1e-12)


def test_eva_finds_the_axes_of_the_inputs_around_their_mean():
    axes = np.linalg.qr(DRAW.normal(size=(7, 7)))[0]
    x = DRAW.normal(size=(5000, 7)) * [9, 5, 3, 1, 0.5, 0.2, 0.1] @ axes.T + 100
    a = starts.eva(moments_of(x), 3)
    np.testing.assert_allclose(np.abs(a.T @ axes[:, :3]), np.eye(3), atol=0.05)
    expected = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:3]
    np.testing.assert_allclose(np.abs((expected @ a).diagonal()), 1, atol=1e-6)


def test_corda_keeps_the_part_of_a_weight_that_the_inputs_use():
    w, axes = DRAW.normal(size=(8, 6)), np.linalg.qr(DRAW.normal(size=(8, 8)))[0]
    x = DRAW.normal(size=(400, 2)) @ axes[:2]  # inputs of two dimensions
    a, b = starts.corda(w, moments_of(x), rank=2)
    np.testing.assert_allclose(x @ a @ b, x @ w, atol=0.05 * np.abs(x @ w).max())
    a, b = starts.corda(w, moments_of(x), rank=6)
    np.testing.assert_allclose(a @ b, w, atol=1e-10)
