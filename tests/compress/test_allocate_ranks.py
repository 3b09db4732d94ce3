"""Scores equal finite differences and hand-computed ones; the allocation is the best of its size."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.compress import allocate_ranks
from lwt.runs import experiment
from lwt.training import new_run, train

pytestmark = pytest.mark.usefixtures("compiled_once")

QUERY, FC1 = "encoder/layer_0/self_attention/query/kernel", "decoder/layer_0/mlp/fc1/kernel"


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """A run, and one that differs from it by updates of rank 3 and 2 in two weights."""
    root = tmp_path_factory.mktemp("runs")
    train.run(tiny({"steps": 1}), str(root / "base"))
    base = experiment.load(root / "base")
    random, weights = np.random.default_rng(0), dict(base.weights)
    for name, rank in ((QUERY, 3), (FC1, 2)):
        n_in, n_out = weights[name].shape
        a, b = random.normal(0, 0.3, (n_in, rank)), random.normal(0, 0.3, (rank, n_out))
        weights[name] = weights[name] + jnp.asarray(a @ b, jnp.float32)
    return base, new_run.write(base, str(root / "moved"), weights=weights)


def test_updates_are_decomposed(runs):
    base, moved = runs
    found = allocate_ranks.updates(moved.weights, base.weights)
    assert {name: len(own.values) for name, own in found.items()} == {QUERY: 3, FC1: 2}
    for name, own in found.items():
        a, b = own.factors(np.arange(len(own.values)))
        np.testing.assert_allclose(base.weights[name] + a @ b, moved.weights[name], atol=1e-5)
        np.testing.assert_allclose(own.p.T @ own.p, np.eye(len(own.values)), atol=1e-5)
    with pytest.raises(errors.ConfigError, match="no matrix differs"):
        allocate_ranks.updates(base.weights, base.weights)


def test_sensitivity_equals_a_finite_difference(runs):
    base, moved = runs
    found = allocate_ranks.updates(moved.weights, base.weights)
    (batch,) = map(jax.device_put, moved.batches(limit=4))
    (products,) = allocate_ranks.sensitivities(moved, found, batches=[batch])

    @jax.jit
    def loss(weights):
        apply = functools.partial(moved.model.apply, {"params": trees.unflatten(weights)})
        total, count, _ = moved.task.loss(apply, batch, train=False)
        return total / count

    share = 0.003
    for name, own in found.items():
        for i in range(len(own.values)):
            part = share * own.values[i] * jnp.outer(own.p[:, i], own.q[i])
            ends = [float(loss(moved.weights | {name: moved.weights[name] + sign * part})) for sign in (1, -1)]
            assert products[name][1][i] == pytest.approx(abs(ends[0] - ends[1]) / (2 * share), rel=0.01, abs=3e-4)
        # p and q each carry the singular value: the absolute entries of each add up to at least the value's
        for side, axis in ((products[name][0], 0), (products[name][2], 1)):
            assert (side.sum(axis=axis) >= products[name][1] - 1e-6).all()


def test_importance_by_hand():
    random = np.random.default_rng(0)
    steps = [{"w": tuple(random.random(shape) for shape in ((4, 2), (2,), (2, 3)))} for _ in range(3)]
    wanted = np.zeros(2)
    for i in range(2):
        for part, entries in ((0, [(j, i) for j in range(4)]), (1, [(i,)]), (2, [(i, j) for j in range(3)])):
            scores = []
            for at in entries:
                mean = spread = 0.0
                for step in steps:
                    own = step["w"][part][at]
                    mean = 0.85 * mean + 0.15 * own
                    spread = 0.85 * spread + 0.15 * abs(own - mean)
                scores.append(mean * spread)
            wanted[i] += sum(scores) / len(scores)
    np.testing.assert_allclose(allocate_ranks.importance(iter(steps))["w"], wanted)
    plain = allocate_ranks.importance(iter(steps), which="sensitivity")["w"]
    np.testing.assert_allclose(plain, sum(step["w"][1] for step in steps) / 3)
    with pytest.raises(errors.DataError, match="no batch"):
        allocate_ranks.importance(iter(()))


def test_allocation_is_the_best_of_its_size():
    scores = {"a": np.array([5.0, 1.0, 4.0]), "b": np.array([0.5, 3.0]), "c": np.array([0.1])}
    every = [(name, i) for name, own in scores.items() for i in range(len(own))]
    for count in range(1, len(every) + 1):
        kept = allocate_ranks.allocate(scores, dict.fromkeys(scores, 10), budget=10 * count + 9)
        best = max(itertools.combinations(every, count), key=lambda chosen: sum(scores[n][i] for n, i in chosen))
        assert {(name, i) for name, own in kept.items() for i in own.tolist()} == set(best)
    kept = allocate_ranks.allocate(
        scores, {"a": 7, "b": 3, "c": 1}, budget=11
    )  # a direction that does not fit is skipped
    assert {name: own.tolist() for name, own in kept.items()} == {"a": [0], "b": [1], "c": [0]}


@pytest.mark.parametrize("which", allocate_ranks.SCORES)
def test_a_run_keeps_the_budget(runs, tmp_path, which):
    base, moved = runs
    whole, done = allocate_ranks.reallocate(moved, str(tmp_path / "all"), base=base.weights, budget=1.0, which=which)
    assert done["ranks"] == {QUERY: 3, FC1: 2} and done["score_kept"] == 1
    for name, w in moved.weights.items():
        np.testing.assert_allclose(whole.weights[name], w, atol=1e-5)
    small, done = allocate_ranks.reallocate(moved, str(tmp_path / "part"), base=base.weights, budget=150, which=which)
    assert done["parameters"] == 64 * sum(done["ranks"].values()) == 128 and done["parameters_before"] == 320
    for name in (QUERY, FC1):
        change = np.asarray(small.weights[name] - base.weights[name])
        assert np.linalg.matrix_rank(change, tol=1e-4) == done["ranks"].get(name, 0)
    if which == "energy":  # the two largest of all are kept, so the missing change is the smallest possible
        values = {name: own.values for name, own in allocate_ranks.updates(moved.weights, base.weights).items()}
        left = np.sort(np.concatenate([*values.values()]))[:3]
        missing = [np.linalg.norm(small.weights[name] - moved.weights[name]) for name in values]
        assert np.hypot(*missing) == pytest.approx(np.linalg.norm(left), rel=1e-4)
    with pytest.raises(errors.ConfigError, match="too small for one direction"):
        allocate_ranks.reallocate(moved, str(tmp_path / "none"), base=base.weights, budget=5, which="energy")


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_that_is_no_number_of_parameters_is_refused(budget):
    with pytest.raises(errors.ConfigError, match=f"--budget={budget:g} must be above 0 and finite"):
        allocate_ranks.reallocate(None, "nowhere", base={}, budget=budget)


def test_scores_without_an_order_are_refused():
    with pytest.raises(errors.NotFinite, match="the scores of b are not finite"):
        allocate_ranks.allocate({"a": np.ones(2), "b": np.array([np.nan])}, {"a": 1, "b": 1}, budget=2)
