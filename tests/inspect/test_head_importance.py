"""Head importance: ablations, and the curve of pruning."""

import numpy as np
import pytest

from lwt.compress import gates
from lwt.inspect import head_importance
from tests.compress import test_gates


class Fake:
    """A measure whose figure is the sum of the worth of the remaining heads."""

    whole, metric = 30.0, "bleu"

    def __init__(self, worth):
        self._worth = worth

    def __call__(self, keep):
        return float(sum(self._worth[name][kept].sum() for name, kept in keep.items()))


def test_curve_and_ablations():
    experiment, _ = test_gates.experiment_of(test_gates.translation())
    generator = np.random.default_rng(0)
    worth = {name: generator.random(2) for name in gates.prunable(experiment, "heads")}
    scale = 30 / sum(values.sum() for values in worth.values())
    worth = {name: values * scale for name, values in worth.items()}
    measure = Fake(worth)
    ablated = head_importance.ablations(measure, worth)
    (name, head), (without, alone) = next(iter(ablated.items()))
    assert without == pytest.approx(30 - worth[name][head]) and alone == pytest.approx(30 - worth[name][1 - head])
    points = head_importance.curve(experiment, measure, scores=worth, shares=[0.4, 0.8, 1.0], seeds=2)
    by_order = {(p.order, p.seed, p.share): p for p in points}
    assert by_order["importance", 0, 0.4].heads == 6 and by_order["random", 1, 1.0].value == 0
    values = np.sort(np.concatenate(list(worth.values())))
    assert by_order["importance", 0, 0.8].value == pytest.approx(values[8:].sum())
    assert all(by_order["importance", 0, 0.8].value >= by_order["random", seed, 0.8].value for seed in (0, 1))
