"""Sums over tiles of the vocabulary equal those over the whole array of logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt.layers.losses import tiles, vocabulary_loss


def problem(v, n=6, d=8):
    rng = np.random.default_rng(0)
    table, hidden, bias = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((v, d), (n, d), v))
    return table, hidden * 40, bias, jnp.asarray(rng.integers(0, v, n))  # logits from -400 to 400


@pytest.mark.parametrize("v, sizes", [(192, [64] * 3), (150, [64, 64, 22]), (9, [9])], ids=["even", "rest", "one"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_sums_equal_those_of_the_whole(v, sizes, with_bias, monkeypatch):
    monkeypatch.setattr(tiles, "SIZE", 6 * 64)
    table, hidden, bias, targets = problem(v)
    logits = table @ hidden.T + (bias[:, None] if with_bias else 0)
    cut = tiles.cut(table, bias if with_bias else None, positions=6, dtype="float32", columns=True)
    assert [rows.shape for rows in cut.rows] == [(size, 8) for size in sizes]
    assert [columns.shape for columns in cut.columns] == [(8, size) for size in sizes]
    found = tiles.walk(cut, hidden, targets=targets, dtype="float32", keep="float32")
    exponentials = jnp.exp(logits - logits.max(0))
    np.testing.assert_allclose(found.top, logits.max(0), rtol=1e-6)
    np.testing.assert_allclose(found.total, exponentials.sum(0), rtol=1e-4)
    np.testing.assert_allclose(found.at_target, logits[targets, jnp.arange(6)], rtol=1e-5)
    np.testing.assert_allclose(found.mean_row, table.T @ exponentials, atol=1e-4)

    weights = jnp.arange(6.0)
    zeros = tuple(jnp.zeros((size, 8)) for size in sizes), tuple(jnp.zeros(size) for size in sizes)
    of_table, of_bias = tiles.add_gradients(zeros, found, hidden=hidden, weights=weights, dtype="float32")
    expected = exponentials * weights @ hidden
    np.testing.assert_allclose(jnp.concatenate(of_table), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(jnp.concatenate(of_bias), exponentials @ weights, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("trained", [(0,), (1,), (2,), (0, 1, 2)], ids=["hidden", "table", "bias", "all"])
def test_bfloat16_over_several_tiles(trained, monkeypatch):
    monkeypatch.setattr(tiles, "SIZE", 4 * 64)
    table, hidden, bias, targets = problem(150)
    inputs, weights = (hidden[None] / 40, table, bias), jnp.ones((1, 6))

    def gradients(dtype):
        def loss(*inputs):
            hidden, table, bias = inputs
            options = dict(targets=targets[None], weights=weights, bias=bias, dtype=dtype, chunk=4)
            return vocabulary_loss.vocabulary_loss(hidden, table, **options)["loss"]

        return jax.jit(jax.grad(loss, trained))(*inputs)

    for found, wanted in zip(gradients("bfloat16"), gradients("float32"), strict=True):
        np.testing.assert_allclose(found, wanted, atol=2**-6 * float(jnp.abs(wanted).max()))


@pytest.mark.parametrize("backend, sizes", [("cpu", [4_608] * 10 + [3_968]), ("gpu", [50_048])])
def test_tiles_are_larger_on_an_accelerator(backend, sizes, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    cut = tiles.cut(jnp.zeros((50_048, 8)), None, positions=448, dtype="float32", columns=False)
    assert [len(rows) for rows in cut.rows] == sizes


def test_a_large_vocabulary_has_few_tiles():
    found = tiles.parts(jnp.zeros(1_000_000), positions=512)
    assert [len(part) for part in found] == [31_296] * 31 + [29_824]
