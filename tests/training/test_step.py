"""One step on a loss by hand: gradients by count, microbatches, randomness by step, and a state that stays finite."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lwt.training import step

BATCH = {"x": jnp.arange(12.0).reshape(6, 2) / 10, "weight": jnp.array([1.0, 1, 0, 1, 1, 0])}


def loss(trainable, frozen, batch, at, key):
    """The squared error of ``x · w + offset + c`` over the rows of weight 1; a batch may ask for noise."""
    del at
    predicted = batch["x"] @ trainable["w"] + trainable["offset"] + frozen["c"]
    noise = jax.random.normal(key, predicted.shape) * batch.get("noise", 0.0)
    total = (batch["weight"] * (predicted + noise - 1) ** 2).sum()
    return total, batch["weight"].sum(), {"loss": total, "count": batch["weight"].sum()}


def started(optimizer, **values):
    trainable = {"w": jnp.array([0.5, -0.25]), "offset": jnp.zeros(())} | values
    return step.init_state(trainable, optimizer, seed=0, sums=("loss", "count", "grad_norm", "steps"))


def moved(batch, *, accumulate=1, optimizer=None, state=None):
    """The state after one step of gradient descent at rate 0.1."""
    optimizer = optimizer or optax.sgd(0.1)
    update = jax.jit(step.make(loss, optimizer, accumulate=accumulate))
    return update(state or started(optimizer), {"c": jnp.float32(0.5)}, batch)


def test_the_gradient_is_divided_once_by_the_count():
    state = moved(BATCH)
    x, weight = np.asarray(BATCH["x"]), np.asarray(BATCH["weight"])
    error = weight * (x @ [0.5, -0.25] + 0.5 - 1)
    np.testing.assert_allclose(state.trainable["w"], [0.5, -0.25] - 0.1 * 2 * error @ x / 4, rtol=1e-6)
    np.testing.assert_allclose(state.trainable["offset"], -0.1 * 2 * error.sum() / 4, rtol=1e-6)
    assert int(state.step) == 1 and float(state.sums["count"]) == 4 and float(state.sums["steps"]) == 1


@pytest.mark.parametrize("accumulate", [2, 3, 6])
def test_microbatches_give_the_step_of_the_whole_batch(accumulate):
    whole, parts = moved(BATCH), moved(BATCH, accumulate=accumulate)
    for name, value in whole.trainable.items():
        np.testing.assert_allclose(parts.trainable[name], value, rtol=1e-6)
    for name, value in whole.sums.items():
        np.testing.assert_allclose(parts.sums[name], value, rtol=1e-6)


def test_every_step_has_its_own_randomness_and_repeats_it():
    noisy = BATCH | {"noise": jnp.ones(6)}
    optimizer = optax.sgd(0.0)
    first = moved(noisy, optimizer=optimizer)
    again, second = moved(noisy, optimizer=optimizer), moved(noisy, optimizer=optimizer, state=first)
    assert float(first.sums["loss"]) == float(again.sums["loss"])
    assert float(second.sums["loss"]) != pytest.approx(2 * float(first.sums["loss"]))


def test_from_a_step_that_is_not_finite_on_the_leaves_stay_as_they_were():
    optimizer = optax.adam(0.1)
    good = moved(BATCH, optimizer=optimizer)
    bad = moved(BATCH | {"x": BATCH["x"].at[0, 1].set(jnp.nan)}, optimizer=optimizer, state=good)
    later = moved(BATCH, optimizer=optimizer, state=bad)
    assert int(good.bad_step) == step.NEVER and int(bad.bad_step) == int(later.bad_step) == 2
    assert bad.bad_leaves.tolist() == later.bad_leaves.tolist() == [True, True]  # offset, w
    for name, before in good.trainable.items():
        np.testing.assert_array_equal(bad.trainable[name], before)
        np.testing.assert_array_equal(later.trainable[name], before)


def test_a_leaf_that_an_update_makes_infinite_is_named():
    """The gradient is finite; the next step's is not, and changes nothing more."""
    optimizer = optax.partition({"large": optax.sgd(3e38), "small": optax.sgd(0.1)}, {"w": "large", "offset": "small"})
    first = moved(BATCH, optimizer=optimizer)
    second = moved(BATCH, optimizer=optimizer, state=first)
    assert int(first.bad_step) == step.NEVER and int(second.bad_step) == 2
    assert step.not_finite(started(optimizer).trainable) == []
    assert step.not_finite(first.trainable) == step.not_finite(second.trainable) == ["w"]


def test_the_average_follows_the_trainable_leaves():
    """By hand, with the decay that grows from 2/11 to `ema`; without `ema` there is none."""
    optimizer = optax.sgd(0.1)
    update = jax.jit(step.make(loss, optimizer, ema=0.25))
    trainable = {"w": jnp.array([0.5, -0.25]), "offset": jnp.zeros(())}
    names = ("loss", "count", "grad_norm", "steps")
    state = step.init_state(trainable, optimizer, seed=0, sums=names, averaged=True)
    average = {name: np.asarray(leaf) for name, leaf in trainable.items()}
    for decay in (2 / 11, 3 / 12, 0.25):
        state = update(state, {"c": jnp.float32(0.5)}, BATCH)
        for name, leaf in state.trainable.items():
            average[name] = decay * average[name] + (1 - decay) * np.asarray(leaf)
            np.testing.assert_allclose(state.average[name], average[name], rtol=1e-6)
    assert state.used is state.average
    plain = moved(BATCH)
    assert plain.average == {} and plain.used is plain.trainable
