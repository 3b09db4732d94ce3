"""The page of attention heads."""

import csv
import dataclasses
import json

import numpy as np

from lwt.compress import gates
from lwt.inspect import head_importance
from studies.inspection import heads

ABOUT = dict(
    config="runs/x", data="folder:x@test", records=4, metric="bleu", whole=30.0, over="examples", normalised=True,
    hardware="a machine", seconds=1.0, command="python -m studies.inspection.heads",
)  # fmt: skip


def test_the_page(tmp_path):
    generator = np.random.default_rng(0)
    scores = {
        f"decoder/layer_{i}/{name}": generator.random(2)
        for i in range(2)
        for name in ("self_attention", "cross_attention")
    }
    ablated = {name: [(29.0 - head, 3.0 + head) for head in range(2)] for name in scores}
    points = [
        head_importance.Point("importance", 0, share, round(8 * (1 - share)), 30 * (1 - share))
        for share in (0.0, 0.5, 1.0)
    ]
    points += [head_importance.Point("random", seed, 0.5, 4, 10.0 + seed) for seed in range(2)]
    found = dict(points=[dataclasses.asdict(point) for point in points], ablated=ablated)
    files = heads.write(tmp_path, **found, scores=scores, ranking=gates.normalised(scores), **ABOUT)
    assert files == ["README.md", "pruning_curve.csv", "pruning_curve.png", "results.json", "scores.csv", "scores.png"]
    rows = list(csv.DictReader((tmp_path / "scores.csv").open()))
    assert len(rows) == 8 and [float(row["without"]) for row in rows[:2]] == [29, 28]
    assert len(json.loads((tmp_path / "results.json").read_text())) == len(points) == 5
    page = (tmp_path / "README.md").read_text()
    assert "| 50% | 4 | 15.000 (n=1) | 10.500 ± 0.707 (n=2) |" in page
    assert "| decoder/layer_1/cross_attention | 2 | -2.000 (head 1) | -26.000 (head 1) |" in page


def test_shares_are_shown_in_per_cent(tmp_path):
    points = [dataclasses.asdict(head_importance.Point("importance", 0, share, 2, 0.7 - share)) for share in (0.0, 0.5)]
    scores = {"encoder/layer_0/self_attention": np.array([1.0, 2.0])}
    found = dict(
        points=points, scores=scores, ranking=scores, ablated={name: [(0.6, 0.5), (0.2, 0.65)] for name in scores}
    )
    heads.write(tmp_path, **found, **ABOUT | dict(metric="accuracy", whole=0.7))
    page = (tmp_path / "README.md").read_text()
    assert "accuracy 70 % with all 2 heads" in page and "| 50% | 2 | 20.000 (n=1) | – |" in page
    assert "| encoder/layer_0/self_attention | 2 | -50.000 (head 1) | -5.000 (head 1) |" in page
    rows = list(csv.DictReader((tmp_path / "pruning_curve.csv").open()))
    assert [float(row["accuracy"]) for row in rows] == [0.7, 0.7 - 0.5]


def test_the_title_says_how_many_heads_can_go():
    assert heads.message({0.0: 40.0, 0.2: 39.0, 0.4: 38.9}, "BLEU") == (
        "20 % of the heads can go for at most one point of BLEU"
    )
    assert heads.message({0.0: 40.0, 0.1: 20.0}, "accuracy").startswith("0 % of the heads")
    assert heads.message({0.0: 1.2, 0.5: 1.9}, "loss") == "The loss as attention heads are removed"
    assert heads.message({0.0: 0.8, 0.5: 0.1}, "f1 macro") == "The f1 macro as attention heads are removed"


def test_modules_are_called_what_people_call_them():
    names = ("decoder/layer_0/cross_attention", "block_1/self_attention")
    assert [*map(heads.spoken, names)] == ["decoder 0, cross-attention", "block 1, self-attention"]
