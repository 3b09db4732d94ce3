"""Head importance: ablations, the curve of pruning, and the page."""

import csv
import json

import numpy as np
import pytest

from lwt.compress import gates
from lwt.inspect import head_importance, head_report
from tests.compress import test_gates

ABOUT = dict(
    config="runs/x", data="folder:x@test", records=4, metric="bleu", whole=30.0, over="examples", normalised=True,
    hardware="a machine", seconds=1.0, command="python -m lwt.inspect.head_importance",
)  # fmt: skip


class Fake:
    """A measure whose figure is the sum of the worth of the remaining heads."""

    whole, metric = 30.0, "bleu"

    def __init__(self, worth):
        self._worth = worth

    def __call__(self, keep):
        return float(sum(self._worth[name][kept].sum() for name, kept in keep.items()))


def test_curve_ablations_and_page(tmp_path):
    experiment, _ = test_gates.experiment_of(test_gates.translation())
    generator = np.random.default_rng(0)
    worth = {name: generator.random(2) for name in gates.parts_of(experiment, "heads")}
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
    files = head_report.write(
        tmp_path, points, scores=worth, ranking=gates.normalised(worth), ablated=ablated, about=ABOUT
    )
    assert files == ["README.md", "pruning_curve.csv", "pruning_curve.png", "results.json", "scores.csv", "scores.png"]
    rows = list(csv.DictReader((tmp_path / "scores.csv").open()))
    assert len(rows) == 10 and float(rows[0]["without"]) == pytest.approx(without)
    assert len(json.loads((tmp_path / "results.json").read_text())) == len(points) == 12
    page = (tmp_path / "README.md").read_text()
    assert "| 80% | 2 |" in page and "(n=2)" in page and "decoder/layer_1/cross_attention" in page
