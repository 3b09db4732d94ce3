"""The vocabulary loss against Optax, and the chunk walk beneath it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt.layers.losses import chunks, vocabulary_loss


def problem(b=4, t=8, d=16, v=40):
    rng = np.random.default_rng(0)
    hidden, table = rng.normal(size=(b, t, d)).astype("f4"), rng.normal(size=(v, d)).astype("f4")
    return hidden, table, rng.integers(0, v, (b, t)), (rng.random((b, t)) > 0.3).astype("f4")


def loss_of(hidden, table, **more):
    return vocabulary_loss.vocabulary_loss(hidden, table, **more)["loss"]


def reference(hidden, table, targets, weights, smoothing):
    labels = optax.smooth_labels(jax.nn.one_hot(targets, table.shape[0]), smoothing)
    return (optax.softmax_cross_entropy(hidden @ table.T, labels) * weights).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 8, 512])
def test_value_and_gradients_equal_optax(smoothing, chunk):
    hidden, table, targets, weights = problem()
    ours = functools.partial(loss_of, targets=targets, weights=weights, smoothing=smoothing, chunk=chunk)
    theirs = functools.partial(reference, targets=targets, weights=weights, smoothing=smoothing)
    np.testing.assert_allclose(ours(hidden, table), theirs(hidden, table), rtol=1e-6)
    for ours_g, theirs_g in zip(jax.grad(ours, (0, 1))(hidden, table), jax.grad(theirs, (0, 1))(hidden, table)):
        np.testing.assert_allclose(ours_g, theirs_g, atol=3e-6)


def test_positions_that_do_not_fill_the_last_chunk():
    hidden, table, targets, weights = problem(t=11)
    loss = functools.partial(loss_of, targets=targets, weights=weights)
    assert float(loss(hidden, table, chunk=16)) == pytest.approx(float(reference(hidden, table, targets, weights, 0.0)))
    for padded, whole in zip(*(jax.grad(loss, (0, 1))(hidden, table, chunk=chunk) for chunk in (16, 44))):
        np.testing.assert_allclose(padded, whole, atol=3e-6)


def test_padding_comes_last_and_its_chunks_are_passed_over():
    hidden, table, targets, weights = problem(b=2, t=8)
    weights[:] = 1.0
    weights[0, 2:], weights[1, 6:] = 0.0, 0.0  # 8 real positions: two chunks of four
    loss = functools.partial(loss_of, table=table, targets=targets, weights=weights, chunk=4)
    expected = jax.value_and_grad(loss)(hidden)
    hidden[weights == 0] = np.nan  # what is not read does no harm
    found = jax.value_and_grad(loss)(hidden)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    assert expected[1][weights == 1].all() and not expected[1][weights == 0].any()


def test_chunks_are_joined_again():
    x, weights = np.arange(30.0).reshape(2, 5, 3), np.array([[1, 0, 1, 0, 1], [0, 1, 1, 1, 0]], "f4")
    (pieces, own), join = chunks.split([x, weights], at_most=4)
    assert pieces.shape == (3, 4, 3) and own.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(join(pieces), x)
    assert join(None) is None


def test_chunks_are_even():
    x, weights = np.arange(50.0).reshape(1, 50), np.ones((1, 50), "f4")
    (pieces, own), join = chunks.split([x, weights], at_most=40)
    assert pieces.shape == (2, 32) and own.sum() == 50  # not 40 and 10
    np.testing.assert_array_equal(join(pieces), x)


def test_a_transposed_kernel_in_one_chunk_of_bfloat16():
    """As the output layer of a text encoder is evaluated; XLA's CPU backend once refused the product."""
    hidden, table, targets, weights = problem(v=64)

    def loss(hidden, kernel):
        return loss_of(hidden, kernel.T, targets=targets, weights=weights, dtype="bfloat16")

    expected = reference(hidden, table, targets, weights, 0.0)
    assert float(jax.jit(loss)(hidden, jnp.asarray(table.T))) == pytest.approx(float(expected), rel=1e-2)


def test_sums_besides_the_loss():
    hidden, table, targets, weights = problem()
    sums = vocabulary_loss.vocabulary_loss(hidden, table, targets=targets, weights=weights, smoothing=0.1)
    right = ((hidden @ table.T).argmax(-1) == targets) * weights
    assert float(sums["correct"]) == right.sum()
    assert float(sums["tokens"]) == weights.sum()
    np.testing.assert_allclose(sums["nll"], reference(hidden, table, targets, weights, 0.0), rtol=1e-6)


def test_a_frozen_table_gets_no_gradient_product():
    hidden, table, targets, weights = problem()
    loss = functools.partial(loss_of, table=jnp.asarray(table), targets=targets, weights=weights)
    shapes = [v.aval.shape for e in _equations(jax.make_jaxpr(jax.grad(loss))(hidden).jaxpr) for v in e.outvars]
    products = [v.aval.shape for e in _equations(jax.make_jaxpr(jax.grad(loss))(hidden).jaxpr)
                if e.primitive.name == "dot_general" for v in e.outvars]  # fmt: skip
    assert shapes and table.shape not in products


def test_never_the_whole_array_of_logits():
    b, t, d, v = 8, 64, 16, 4096
    hidden, table, targets, weights = problem(b, t, d, v)
    loss = functools.partial(loss_of, targets=targets, weights=weights, chunk=64)
    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(hidden, table).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < b * t * v * 4 / 2


def with_bias(smoothing, dtype):
    """Our loss and the plain one of (hidden, table, bias), both with operands of `dtype` in the product."""
    _, _, targets, weights = problem()

    def ours(hidden, table, bias):
        more = {"bias": bias, "smoothing": smoothing, "dtype": dtype, "chunk": 8}
        return loss_of(hidden, table, targets=targets, weights=weights, **more)

    def plain(hidden, table, bias):
        rounded = (x.astype(dtype).astype("float32") for x in (hidden, table))
        logits = jnp.einsum("btd,vd->btv", *rounded) + bias
        labels = optax.smooth_labels(jax.nn.one_hot(targets, len(bias)), smoothing)
        return (optax.softmax_cross_entropy(logits, labels) * weights).sum()

    return ours, plain


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bias_equals_the_plain_formula(smoothing, dtype):
    hidden, table, targets, weights = problem()
    inputs = jnp.asarray(hidden), jnp.asarray(table), jnp.asarray(np.random.default_rng(1).normal(size=40), "float32")
    ours, plain = with_bias(smoothing, dtype)
    coarse = dtype == "bfloat16"  # 8 bits of mantissa in the operands of the gradients' products too
    np.testing.assert_allclose(ours(*inputs), plain(*inputs), rtol=2e-3 if coarse and smoothing else 1e-6)
    every, together = (jax.jit(jax.grad(f, (0, 1, 2)))(*inputs) for f in (plain, ours))
    for argument, (wanted, found) in enumerate(zip(every, together)):
        atol = 2**-7 * float(jnp.abs(wanted).max()) if coarse and argument < 2 else 5e-6
        np.testing.assert_allclose(found, wanted, atol=atol)
        alone = jax.jit(jax.grad(ours, argument))(*inputs)  # the other two are frozen
        np.testing.assert_allclose(alone, found, rtol=1e-5, atol=1e-6)
    sums = vocabulary_loss.vocabulary_loss(*inputs[:2], targets=targets, weights=weights, bias=inputs[2], dtype=dtype)
    np.testing.assert_allclose(sums["nll"], with_bias(0.0, dtype)[1](*inputs), rtol=1e-6)


def test_a_bias_of_zeros_is_no_bias():
    hidden, table, targets, weights = problem()
    sums = functools.partial(vocabulary_loss.vocabulary_loss, targets=targets, weights=weights, smoothing=0.1)
    without, zeros = sums(hidden, table), sums(hidden, table, bias=np.zeros(40, "f4"))
    assert {k: float(v) for k, v in without.items()} == {k: float(v) for k, v in zeros.items()}


@pytest.mark.parametrize("wrong", ["targets", "weights", "table"])
def test_arrays_that_do_not_fit_are_rejected(wrong):
    """Weights `[b 1]` would otherwise count the first position of every row and nothing else."""
    hidden, table, targets, weights = problem()
    arrays = {"table": table, "targets": targets, "weights": weights}
    arrays[wrong] = arrays[wrong][:, :1]
    with pytest.raises(AssertionError, match="shape|dimension"):
        loss_of(hidden, **arrays)


def _equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)


def test_an_accelerator_computes_the_same_without_conditions(monkeypatch):
    hidden, table, targets, weights = problem(b=2, t=8)
    weights[0, 2:], weights[1, 6:] = 0.0, 0.0  # the last of four chunks is padding
    loss = functools.partial(loss_of, table=table, targets=targets, weights=weights, chunk=4)
    found = {}
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", functools.partial(str, backend))
        jax.clear_caches()  # of what was traced for the other
        found[backend] = str(jax.make_jaxpr(loss)(hidden)).count(" cond["), *jax.value_and_grad(loss)(hidden)
    monkeypatch.undo()
    jax.clear_caches()
    assert found["gpu"][0] < found["cpu"][0]
    np.testing.assert_allclose(found["gpu"][1], found["cpu"][1], rtol=1e-6)
    np.testing.assert_allclose(found["gpu"][2], found["cpu"][2], atol=1e-6)
