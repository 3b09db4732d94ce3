"""Augmentation: what moves is kept, labels follow the pixels, and a key decides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lwt.layers import augment

KEY = jax.random.key(3)
FUNCTIONS = {
    "flip": augment.flip,
    "crop": lambda x, key: augment.crop(x, key, padding=3),
    "reflected": lambda x, key: augment.crop(x, key, padding=3, mode="reflect"),
    "mixup": lambda x, key: augment.mixup(x, key, alpha=0.8),
    "cutmix": lambda x, key: augment.cutmix(x, key, alpha=1.0),
}


def images(count=64, height=9, width=12, channels=2):
    """Images whose numbers all differ."""
    shape = (count, height, width, channels)
    return jnp.arange(1, 1 + np.prod(shape), dtype=jnp.float32).reshape(shape)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_key_decides_and_jit_changes_nothing(name):
    function, x = FUNCTIONS[name], images()
    first, again, jitted = function(x, KEY), function(x, KEY), jax.jit(function)(x, KEY)
    other = function(x, jax.random.key(4))
    for a, b, c in zip(*map(jax.tree.leaves, (first, again, jitted)), strict=True):
        assert (a == b).all()
        np.testing.assert_allclose(a, c, rtol=1e-6)
    assert (jax.tree.leaves(first)[0] != jax.tree.leaves(other)[0]).any()


def test_flips_are_permutations_of_half_of_the_images():
    x = images(count=400)
    flipped = np.asarray(augment.flip(x, KEY))
    same = (flipped == x).all((1, 2, 3))
    np.testing.assert_array_equal(flipped[~same], x[~same, :, ::-1])
    assert 150 < same.sum() < 250
    assert augment.flip(x.astype(jnp.uint8), KEY).dtype == jnp.uint8


@pytest.mark.parametrize("mode", ["zero", "reflect"])
def test_crops_are_shifts(mode):
    """Each is a window of the padded image, and all shifts come up."""
    x, padding = np.asarray(images(count=300, height=6, width=5)), 1
    made = np.asarray(augment.crop(jnp.asarray(x), KEY, padding=padding, mode=mode))
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    padded = np.pad(x, around) if mode == "zero" else np.pad(x, around, mode="reflect")
    found = np.stack(
        [(padded[:, i : i + 6, j : j + 5] == made).all((1, 2, 3)) for i in range(3) for j in range(3)], axis=1
    )
    assert (found.sum(1) == 1).all() and (found.sum(0) > 10).all()


def test_mixup_is_the_weighted_sum():
    x = images()
    made, share = augment.mixup(x, KEY, alpha=0.8)
    assert share.shape == (64,) and 0 <= share.min() < 0.2 and 0.8 < share.max() <= 1
    weights = np.asarray(share)[:, None, None, None]
    np.testing.assert_allclose(made, weights * x + (1 - weights) * np.roll(x, 1, axis=0), rtol=1e-5)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_are_beta_distributed(alpha):
    _, share = augment.mixup(jnp.zeros((4000, 1, 1, 1)), KEY, alpha=alpha)
    assert scipy.stats.kstest(np.asarray(share), scipy.stats.beta(alpha, alpha).cdf).pvalue > 0.01


def test_cutmix_s_shares_are_the_areas():
    x = np.asarray(images(count=300))
    made, share = augment.cutmix(jnp.asarray(x), KEY, alpha=1.0)
    own, pasted = (np.asarray(made) == x).all(3), (np.asarray(made) == np.roll(x, 1, axis=0)).all(3)
    assert (own ^ pasted).all()
    np.testing.assert_allclose(share, own.mean((1, 2)), rtol=1e-6)
    assert share.min() < 0.4 and share.max() > 0.9
    for mask in pasted:  # a rectangle: all of the rows and columns that it touches
        np.testing.assert_array_equal(mask, mask.any(1)[:, None] & mask.any(0)[None])
