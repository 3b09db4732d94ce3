"""The adapter beside a run's checkpoints is that of its best step, as evaluation takes it."""

import numpy as np

from lwt.layers import linear
from lwt.reparam import adapters
from lwt.runs import experiment
from lwt.training import train


def test_it_is_the_best_steps(tiny, tmp_path):
    train.run(tiny(), tmp_path / "base")
    changes = {"reparam": {"name": "lora", "rank": 2}, "optimizer.trainable": ("adapter/.*",), "steps": 4}
    changes |= {"init_from": str(tmp_path / "base"), "eval_every": 2, "select_mode": "max"}  # the worse of two losses
    train.run(tiny(changes), tmp_path / "run")
    best, last = (experiment.load(tmp_path / "run", checkpoint=which) for which in ("best", "last"))
    base = experiment.load(tmp_path / "base").weights
    saved = adapters.load(tmp_path / "run" / "adapter", base_fingerprint=adapters.fingerprint(base))
    assert saved.step == best.step == 2 < last.step
    for name, w in linear.merge(saved.expand(base)).items():
        np.testing.assert_array_equal(w, best.weights[name])
