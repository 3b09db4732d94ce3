"""Factorised runs have the smallest error and the promised bytes, and can be trained further."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from configs import common
from lwt import errors, trees
from lwt.compress import factorise
from lwt.layers import linear, listen
from lwt.reparam import compose
from lwt.runs import assembly, experiment
from lwt.training import train

pytestmark = pytest.mark.usefixtures("compiled_once")


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train.run(tiny({"steps": 2}), folder)
    return experiment.load(folder)


@pytest.fixture
def weight():
    """A weight, and inputs that differ in size between directions."""
    generator = np.random.default_rng(0)
    w, mixing = generator.normal(size=(12, 20)), np.exp(generator.normal(size=(12, 12)))
    return w, generator.normal(size=(300, 12)) @ mixing


def test_calibrated_factors_are_the_best_of_their_rank_in_the_outputs(weight):
    w, x = weight
    plain, whitened = factorise.decompose(w), factorise.decompose(w, x.T @ x)
    for rank in (1, 4, 11):
        products = [np.linalg.multi_dot(own.factors(rank)) for own in (plain, whitened)]
        in_weights, in_outputs = ([np.linalg.norm(m @ (w - p)) for p in products] for m in (np.eye(12), x))
        assert in_weights[0] < in_weights[1] and in_outputs[0] > in_outputs[1]
        # reduced-rank regression: the nearest matrix of this rank is XW projected on its leading directions
        right = scipy.linalg.svd(x @ w)[2][:rank]
        np.testing.assert_allclose(products[1], w @ right.T @ right, atol=1e-3)
        np.testing.assert_allclose(in_outputs[1] ** 2, (1 - whitened.kept(rank)) * np.square(x @ w).sum(), rtol=1e-2)


def test_constant_inputs_are_harmless(weight):
    w, x = weight
    x[:, :3] = 0
    a, b = factorise.decompose(w, x.T @ x).factors(9)
    np.testing.assert_allclose(x @ np.asarray(a @ b), x @ w, atol=1e-2)


def test_moments_may_be_indefinite_by_rounding():
    generator = np.random.default_rng(0)
    x, w = generator.normal(30, 0.01, (256, 128)).astype(np.float32), generator.normal(size=(128, 20))
    moment = (x.T @ x).astype(np.float64)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(moment + factorise.DAMPING * np.trace(moment) / 128 * np.eye(128))
    errors_of = [np.linalg.norm(x @ (w - np.linalg.multi_dot(own.factors(2)))) for own in (
        factorise.decompose(w), factorise.decompose(w, moment))]  # fmt: skip
    assert errors_of[1] < errors_of[0] / 2


def test_ranks_by_energy_are_the_smallest():
    found = {name: factorise.Decomposition(np.eye(4), np.array(s), np.eye(4)) for name, s in SPECTRA.items()}
    assert factorise.by_energy(found, 0.9) == {"flat": 4, "steep": 1}
    assert factorise.by_energy(found, 0.75) == {"flat": 3, "steep": 1}
    assert factorise.by_energy(found, 1.0) == {"flat": 4, "steep": 4}
    with pytest.raises(errors.ConfigError, match="--energy=1.5 must be in"):
        factorise.by_energy(found, 1.5)


SPECTRA = {"flat": [1.0, 1.0, 1.0, 1.0], "steep": [9.0, 2.0, 0.5, 0.1]}


def test_the_budget_goes_where_the_energy_is():
    sides = np.eye(10, 4), np.eye(4, 10)
    found = {name: factorise.Decomposition(sides[0], np.array(s), sides[1]) for name, s in SPECTRA.items()}
    direction = factorise.BYTES * 20
    assert factorise.by_budget(found, 2 * direction) == {"flat": 1, "steep": 1}
    assert factorise.by_budget(found, 3 * direction) == {"flat": 2, "steep": 1}, "shares, not squares"
    assert factorise.by_budget(found, 6 * direction - 1) == {"flat": 4, "steep": 1}
    assert factorise.by_budget(found, 6 * direction) == {"flat": 4, "steep": 2}
    large = factorise.Decomposition(
        np.eye(10, 4), np.ones(4), np.eye(4, 30)
    )  # three times the entries for twice the bytes
    assert factorise.by_budget({"small": found["flat"], "large": large}, 5 * direction) == {"small": 1, "large": 2}
    with pytest.raises(errors.ConfigError, match="rank 1 takes 160"):
        factorise.by_budget(found, 159)
    square = {"w": factorise.decompose(np.random.default_rng(0).normal(size=(8, 8)))}
    assert factorise.by_budget(square, factorise.BYTES * 64) == {"w": 8}, "a rank of 4 would be as large as the weight"
    assert factorise.by_budget(square, factorise.BYTES * 63) == {"w": 3}


def test_moments_ignore_padding(run):
    """Moments of both sides equal those of embeddings and memory computed record by record without padding."""
    names = ["encoder/layer_0/self_attention/query/kernel", "decoder/layer_0/self_attention/query/kernel"]
    names += ["decoder/layer_0/cross_attention/key/kernel"]
    found = factorise.moments(run, names, records=5)
    data = assembly.make_data(run.config, run.workdir, make=False)
    (batch,) = data.batches(data.evaluation(run.config.data.validation, limit=5))
    table, expected = np.asarray(run.weights["embed/embedding"], np.float64), [0, 0, 0]
    for row in range(5):
        one = {key: value[row : row + 1] for key, value in batch.items()}
        for i, side in enumerate(("source", "inputs")):
            length = int((one[listen.side(names[i], one)[1]] > 0).sum())
            angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, 32, 2)[None] / 32)
            position = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, 32)
            x = table[one[side][0, :length]] * 32**0.5 + position
            expected[i] = expected[i] + x.T @ x
        length = int((one["source_segments"] > 0).sum())
        *source, places = [jnp.asarray(one[f"source{key}"][:, :length]) for key in ("", "_segments", "_positions")]
        variables = {"params": trees.unflatten(run.weights)}
        memory = run.model.apply(variables, *source, positions=places, method="encode")[0]
        expected[2] = expected[2] + np.asarray(memory.T @ memory)
    for name, wanted in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name], wanted, rtol=1e-3, atol=1e-2)
    with pytest.raises(errors.ConfigError, match="embedding' is not a linear layer"):
        factorise.moments(run, ["embed/embedding"], records=1)


def test_a_factorised_run_is_evaluated_and_trained_as_factors(run, tmp_path):
    made, done = factorise.factorise(run, tmp_path / "made", rank=6, calibrate=8)
    name = "encoder/layer_0/mlp/fc1/kernel"
    assert isinstance(made.weights[name], linear.Factors) and made.weights[name].a.shape == (32, 6)
    assert done["bytes"] == trees.nbytes(made.weights) < done["bytes_before"] == trees.nbytes(run.weights)
    merged = made.with_weights(linear.merge(made.weights), name="merged", step=0)
    np.testing.assert_allclose(made.evaluate()[0]["loss"], merged.evaluate()[0]["loss"], rtol=1e-5)
    config = common.of_run(made.workdir)
    config.steps = 1
    train.run(config, tmp_path / "tuned")
    tuned = experiment.load(tmp_path / "tuned").weights[name]
    assert isinstance(tuned, linear.Factors) and tuned.a.shape == (32, 6)
    np.testing.assert_allclose(tuned.dense(), made.weights[name].dense(), atol=1e-2)  # Adam moves by the rate, 1e-3
    assert np.any(np.asarray(tuned.dense() - made.weights[name].dense()))
    again, _ = factorise.factorise(made, tmp_path / "again", rank=6)
    np.testing.assert_allclose(again.weights[name].dense(), made.weights[name].dense(), atol=1e-5)


def test_the_budget_is_kept(run, tmp_path):
    before = trees.nbytes(run.weights)
    made, done = factorise.factorise(run, tmp_path / "made", budget=0.7)
    assert 0.69 * before < trees.nbytes(made.weights) == done["bytes"] <= 0.7 * before
    assert all(0 < share < 1 for share in done["energy_kept"].values())
    with pytest.raises(errors.ConfigError, match="--budget leaves"):
        factorise.factorise(run, tmp_path / "small", budget=0.01)
    with pytest.raises(errors.ConfigError, match="no factors are smaller"):
        factorise.factorise(run, tmp_path / "large", rank=32)
    with pytest.raises(errors.ConfigError, match="exactly one of --rank"):
        factorise.factorise(run, tmp_path / "both", rank=2, energy=0.5)


def test_the_run_equals_the_start_of_the_reparametrization(run, tmp_path):
    """Without calibration, the factors equal those that a run with reparam.name="svd" starts with."""
    made, done = factorise.factorise(run, tmp_path / "made", energy=0.8)
    started = compose.build(made.config.reparam).init(jax.random.key(0), run.weights)
    for name, rank in done["ranks"].items():
        assert made.weights[name].a.shape[1] == rank
        np.testing.assert_allclose(started[f"{name}/a"] @ started[f"{name}/b"], made.weights[name].dense(), atol=1e-5)
