"""The first steps, number by number; and that training learns."""

import numpy as np
import pytest

from lwt.data.batches import pair_examples
from lwt.machine import devices
from lwt.runs import experiment
from lwt.training import build, train

LOSSES = (5.31829612, 5.20370070, 5.20729955)


def test_the_first_three_losses(tiny, tmp_path):
    """Initial weights, dropout, loss, gradient and optimizer of a fixed seed, on batches of fixed numbers.

    Whoever changes the numerics on purpose pins the new losses, and says so.
    """
    run = build.build(tiny({"optimizer.clip_norm": 1.0, "optimizer.weight_decay": 0.1}), tmp_path)
    state, total, losses = run.init(), 0.0, []
    for seed in range(3):
        ids = np.random.default_rng(seed).integers(4, 60, (16, 32)).astype(np.int32)
        segments, positions = np.ones_like(ids), np.tile(np.arange(32, dtype=np.int32), (16, 1))
        segments[:, 24:] = 0
        batch = {
            key: segments if "segments" in key else positions if "positions" in key else ids
            for key in pair_examples.KEYS
        }
        batch["targets"] = ids[:, ::-1].copy()
        state = run.step(state, run.frozen, devices.put_rows(batch, run.row_sharding))
        losses.append(float(state.sums["loss"]) - total)
        total += losses[-1]
    assert np.divide(losses, 16 * 24) == pytest.approx(LOSSES, rel=1e-5)


def test_eight_pairs_are_learned_by_heart(tiny, rows, tmp_path):
    eight = "generated:arithmetic,size=8@train"
    changes = {f"data.{name}": eight for name in ("train", "validation", "test")}
    changes |= {"model.dropout": 0.0, "model.attention_dropout": 0.0, "model.hidden": 64, "data.rows": 4}
    changes |= {"optimizer.schedule": dict(name="cosine", warmup=20), "optimizer.learning_rate": 1e-2}
    changes |= {"steps": 250, "log_every": 50, "eval_every": 250, "save_every": 250, "eval_decode": True}
    figures = train.run(tiny(changes), tmp_path)
    losses = [row["train/loss"] for row in rows(tmp_path) if "train/loss" in row]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.1 < 1 < losses[0]
    assert figures["exact_match"] > 0.95 and figures["examples"] == 8
    opened = experiment.load(tmp_path)
    _, sources, hypotheses, references = opened.evaluate()
    assert hypotheses == references == opened.predict(sources), "greedy decoding"
