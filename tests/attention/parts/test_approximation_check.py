"""The check of the polynomial approximation, on arrays and on models."""

import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import trees
from lwt.attention import approximate, softmax
from lwt.attention.parts import approximation_check, masks
from lwt.models import bert, seq2seq


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def made(cls, **more):
    """A small model with a batch, two texts of it shorter than the row: ``(model, weights, batch)``."""
    model = cls(vocabulary=20, width=16, heads=2, hidden=16, **more)
    ids = np.random.default_rng(0).integers(4, 20, (3, 8))
    segments = np.array([[1] * 8, [1] * 5 + [0] * 3, [1] * 3 + [0] * 5])
    if cls is bert.Bert:
        batch = {"ids": ids, "segments": segments}
    else:
        batch = {"source": ids, "source_segments": segments, "source_positions": np.tile(np.arange(8), (3, 1))}
        batch |= {"inputs": ids, "target_segments": segments, "target_positions": batch["source_positions"]}
    batch = {name: jnp.asarray(x) for name, x in batch.items()}
    return model, trees.flatten(model.init(jax.random.key(0), batch)["params"]), batch


def test_the_remainder_bounds_what_is_measured_and_the_threshold_inverts_it():
    for degree in range(1, 6):
        for size in (0.05, 0.3, 0.6):
            q, k = (size * normal(i, 1, 1, 64, 8) for i in (0, 1))
            found = approximation_check.check(q, k, degree=degree)
            assert found.largest == pytest.approx(np.abs(q @ k.swapaxes(2, 3)).max())
            assert 0 < found.error <= approximation_check.remainder(found.largest, degree)
        assert approximation_check.remainder(approximation_check.threshold(degree, 0.03), degree) == pytest.approx(0.03)
    assert approximation_check.remainder(3.0, 2) == math.inf


def test_the_error_is_that_of_the_weights():
    q, k = normal(0, 2, 2, 300, 4), normal(1, 2, 2, 7, 4)
    mask = masks.Mask(jnp.array([[1] * 7, [1] * 4 + [0] * 3]))
    real = np.array([[True] * 300, [True] * 299 + [False]])
    found = approximation_check.check(q, k, degree=2, mask=mask, real=real, sample=300)
    x = q @ k.swapaxes(2, 3)
    seen = np.asarray(mask.array(300, 7))
    exact, rough = (w * seen / (w * seen).sum(-1, keepdims=True) for w in (np.exp(x), 1 + x + x**2 / 2))
    counted = real[:, None, :, None]
    expected = np.linalg.norm((rough - exact) * counted) / np.linalg.norm(exact * counted)
    assert found.error == pytest.approx(expected, rel=1e-6)
    assert found.largest == pytest.approx(np.abs(x * seen * counted).max())
    few = approximation_check.check(q, k, degree=2, mask=mask, real=real, sample=32)
    assert few.error == pytest.approx(expected, rel=0.3)


def test_every_layer_of_a_model_is_heard_and_those_outside_are_named(caplog):
    model, weights, batch = made(bert.Bert, max_length=8)
    with caplog.at_level(logging.WARNING, logger="lwt"):
        found = approximation_check.check_model(model, weights, batch=batch)
    assert [one.layer for one in found] == ["block_0/self_attention", "block_1/self_attention"]
    outside = [one for one in found if not one.holds]
    safe = approximation_check.threshold(2)
    assert outside and [record.getMessage() for record in caplog.records] == [str(one) for one in outside]
    message = caplog.records[0].getMessage()
    for word in ("block_0/self_attention", f"{outside[0].largest:.2f}", "degree 2", f"{safe:.2f}"):
        assert word in message


def test_padding_does_not_count():
    model, weights, batch = made(bert.Bert, max_length=8)

    def check(batch):
        return approximation_check.check_model(model, weights, batch=batch)

    noise = jnp.where(batch["segments"] > 0, batch["ids"], 19)
    assert check(batch | {"ids": noise}) == check(batch)


def test_all_three_attentions_of_a_translator():
    model, weights, batch = made(seq2seq.Seq2Seq, encoder_layers=2, decoder_layers=2)
    names = {one.layer for one in approximation_check.check_model(model, weights, batch=batch)}
    kinds = ("encoder/layer_{}/self_attention", "decoder/layer_{}/self_attention", "decoder/layer_{}/cross_attention")
    assert names == {kind.format(i) for kind in kinds for i in (0, 1)}


def test_an_approximate_layer_answers_for_its_own_degree_and_norm():
    model, weights, batch = made(bert.Bert, max_length=8)

    def own(*args, **more):
        return approximate.Attention(*args, degree=3, norm="clip", bound=0.5, **more)

    for one in approximation_check.check_model(model.clone(attention=own), weights, batch=batch, degree=1):
        assert one.degree == 3 and one.largest <= 0.5 * (1 + 1e-6) and one.holds


def test_the_weights_of_softmax_fit():
    model, weights, batch = made(bert.Bert, max_length=8, attention=softmax.Attention)
    other, others, _ = made(bert.Bert, max_length=8, attention=approximate.Attention)
    assert trees.differences(weights, others) == ""

    def apply(m):
        return m.apply({"params": trees.unflatten(weights)}, batch, method="hidden_states")

    np.testing.assert_allclose(apply(other), apply(model), atol=2e-5)
