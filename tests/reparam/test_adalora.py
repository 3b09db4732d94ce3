"""AdaLoRA: its counts and schedule, and that a run prunes to its budget with directions that stay nearly orthogonal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lwt import errors, trees
from lwt.reparam import adalora, compose
from lwt.runs import experiment
from lwt.training import train


def test_the_budget_falls_by_a_cubic():
    reparam = adalora.AdaLoRA(rank=6, budget=2, begin=10, end=30)
    assert [int(reparam.budget_at(step, 5)) for step in (0, 10, 20, 30, 99)] == [30, 30, 12, 10, 10]
    with pytest.raises(errors.ConfigError, match="budget=9 has to be at most rank=6, begin=1 below end=2"):
        adalora.AdaLoRA(rank=6, budget=9, begin=1, end=2)


def test_the_penalty_is_zero_for_orthonormal_directions(base):
    reparam = adalora.AdaLoRA(rank=3, budget=2)
    adapter = reparam.init(jax.random.key(0), base)
    apart = {n: jnp.eye(*x.shape) if x.ndim == 2 else x for n, x in adapter.items()}
    assert reparam.penalty(apart) < 1e-5 < reparam.penalty(adapter)
    chain = compose.build({"name": "compose", "parts": [{"name": "lora"}, {"name": "adalora", "rank": 3, "budget": 2}]})
    leaves = trees.with_prefix(adapter, "1_adalora")
    assert chain.penalty(leaves) == reparam.penalty(adapter) and compose.penalty(chain.parts[0], {}) is None


def test_a_run_ends_at_its_budget(tiny, tmp_path):
    train.run(tiny({"steps": 1}), tmp_path / "base")
    section = {"name": "adalora", "rank": 3, "budget": 2, "alpha": 3.0, "begin": 2, "end": 8, "every": 2}
    changes = {"reparam": section, "optimizer.trainable": ("adapter/.*",), "init_from": f"{tmp_path}/base"}
    changes |= {"steps": 10, "optimizer.learning_rate": 0.05, "log_every": 10, "eval_every": 10, "save_every": 10}
    train.run(tiny(changes), tmp_path / "run")
    leaves = trees.subtree(experiment.load(tmp_path / "run/adapter", base=tmp_path / "base").stored()[0], "adapter")
    kept = [np.count_nonzero(leaf) for name, leaf in leaves.items() if name.endswith("values")]
    assert sum(kept) == 2 * len(kept) and max(kept) == 3
    assert {name.rpartition("/")[2] for name in leaves} == {"a", "b", "values"}
    a = next(leaf for name, leaf in leaves.items() if name.endswith("/a"))
    start = np.linalg.norm(0.02**2 * 32 * np.eye(3) - np.eye(3))
    assert np.linalg.norm(a.T @ a - np.eye(3)) < 0.7 * start  # 10 steps of the penalty
