"""Pruning as a reparametrization: how many weights are left, at which step, and what learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.reparam import compose
from lwt.reparam.compression import prune

QUERY, TABLE = "encoder/layer_0/self_attention/query/kernel", "embed/embedding"


def zeros(weights):
    return {name: int((np.asarray(w) == 0).sum()) for name, w in weights.items() if name.endswith("kernel")}


def test_the_smallest_weights_of_every_layer_go(base):
    weights = prune.Prune(sparsity=0.3).expand(base, {}, 0)
    for name, w in base.items():
        w, found = np.asarray(w), np.asarray(weights[name])
        if name.endswith("kernel"):
            smallest = np.argsort(abs(w), axis=None)[: round(0.3 * w.size)]
            assert set(np.flatnonzero(found == 0)) == set(smallest)
            np.testing.assert_array_equal(found[found != 0], w[found != 0])
        else:
            assert weights[name] is base[name]


def test_one_threshold_for_all(base):
    scaled = base | {QUERY: base[QUERY] * 100}
    weights = prune.Prune(sparsity=0.5, scope="global").expand(scaled, {}, 0)
    sizes = np.concatenate([abs(np.asarray(scaled[name])).ravel() for name in zeros(base)])
    limit = np.sort(sizes)[round(0.5 * sizes.size) - 1]
    for name in zeros(base):
        np.testing.assert_array_equal(np.asarray(weights[name]) == 0, abs(np.asarray(scaled[name])) <= limit)
    assert zeros(weights)[QUERY] < 0.1 * base[QUERY].size


@pytest.mark.parametrize("share", [0.0, 1e-9, 0.25, 0.999])
def test_the_threshold_is_the_order_statistic(share):
    values = [jnp.asarray(abs(np.random.default_rng(i).standard_cauchy(1000)), jnp.float32) for i in range(3)]
    count = round(share * 3000)
    wanted = np.sort(np.concatenate(values))[count - 1] if count else -np.inf
    assert float(prune.threshold(values, share)) == wanted


def test_the_cubic_schedule_rises_in_steps_without_another_compilation(base):
    reparam = prune.Prune(sparsity=0.8, initial=0.2, begin=10, end=50, every=10)
    traced = []

    @jax.jit
    def count(base, step):
        traced.append(step)
        return (reparam.expand(base, {}, step)[QUERY] == 0).mean()

    for step, share in [(0, None), (9, None), (10, 0.0), (19, 0.0), (20, 0.25), (45, 0.75), (50, 1.0), (900, 1.0)]:
        wanted = 0.0 if share is None else 0.8 - 0.6 * (1 - share) ** 3  # equation 1
        assert float(count(base, jnp.int32(step))) == pytest.approx(wanted, abs=0.5 / base[QUERY].size + 1e-6)
    assert len(traced) == 1
    assert reparam.identity_at_start and not prune.Prune().identity_at_start
    assert float(prune.Prune(sparsity=0.5, end=15, every=10).sparsity_at(15)) == 0.5  # the last rise is a shorter one


def test_patterns_keep_n_of_every_m_inputs(base):
    tied = base | {QUERY: jnp.ones_like(base[QUERY])}
    for weights, of in ((base, base), (tied, tied)):
        found = prune.Prune(pattern=(2, 4), targets=".*(query|key)/kernel").expand(weights, {}, 0)
        for name in (QUERY, "encoder/layer_0/cross_attention/key/kernel"):
            groups = abs(np.asarray(of[name])).reshape(-1, 4, of[name].shape[1])
            kept = np.asarray(found[name]).reshape(groups.shape) != 0
            assert (kept.sum(1) == 2).all()
            assert (np.where(kept, groups, np.inf).min(1) >= np.where(kept, -np.inf, groups).max(1)).all()
    with pytest.raises(errors.ConfigError, match=r"mlp/fc1/kernel has 12 inputs, not a multiple of 5"):
        prune.Prune(pattern=(2, 5), targets=".*fc1/kernel").init(None, base)


@pytest.mark.parametrize("gradient", prune.GRADIENTS)
def test_what_learns(base, apply, gradient):
    ids = np.array([3, 0, 10])
    reparam = prune.Prune(gradient=gradient)

    def loss(weights):
        return (apply(weights, ids) ** 2).sum()

    masked = reparam.expand(base, {}, 0)
    found = jax.grad(lambda base: loss(reparam.expand(base, {}, 0)))(base)
    at_masked = jax.grad(loss)(masked)
    for name in base:
        alive = gradient == "straight_through" or not name.endswith("kernel")
        wanted = at_masked[name] if alive else at_masked[name] * (masked[name] != 0)
        np.testing.assert_allclose(found[name], wanted, atol=1e-6)


def test_zeros_stay_zero_whatever_is_trained(base, moved):
    pruned = prune.Prune(sparsity=0.6).expand(base, {}, 0)
    reparam = compose.build({"name": "prune", "mask": "zeros"})
    adapter = reparam.init(None, pruned)
    assert set(reparam.labels(adapter).values()) == {"constant"}
    assert trees.nbytes(adapter) == sum(w.size for name, w in base.items() if name.endswith("kernel"))  # a byte each
    np.testing.assert_array_equal(reparam.expand(pruned, adapter, 0)[QUERY], pruned[QUERY])
    later = reparam.expand(moved(pruned), adapter, 10**6)
    assert zeros(later) == zeros(pruned)
    np.testing.assert_array_equal(later[TABLE], moved(pruned)[TABLE])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial": 0.3}, "reparam.initial=0.3 has no effect without an end of the schedule"),
        ({"sparsity": 1.0}, r"reparam.sparsity is 1.0; it has to be a share in \[0, 1\)"),
        ({"scope": "model"}, "reparam.scope is 'model'"),
        ({"mask": "zero"}, "did you mean 'zeros'"),
        ({"begin": 10, "end": 5}, "the schedule must end after it begins"),
        ({"every": 0, "end": 5}, "every=0"),
        ({"pattern": (4, 2)}, r"reparam.pattern is \(4, 2\); it has to be \(n, m\)"),
    ],
)
def test_wrong_configs(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        compose.build({"name": "prune", **options})
