"""What is drawn is what was given; pictures are written."""

import json
import statistics

import numpy as np
import pytest
from PIL import Image

from lwt import errors
from lwt.report import plots

ROWS = [
    {"step": 1, "time": 0.5, "train/loss": 3.0},
    {"step": 2, "time": 0.9, "train/loss": None},
    {"step": 3, "time": 1.5, "train/loss": 2.0},
    {"step": 3, "time": 1.6, "validation/loss": 2.5, "validation/bleu_signature": "nrefs:1"},
]


def workdir(folder, rows, *, torn=False):
    folder.mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "metrics.jsonl").write_text(text + ('{"step": 4, "tra' if torn else ""))
    return folder


def is_picture(path, drawn):
    with Image.open(path) as image:
        pixels, dpi = np.asarray(image.convert("L")), image.info["dpi"]
    assert dpi == pytest.approx((150, 150), abs=0.1)
    assert pixels.shape[::-1] == tuple((drawn.get_size_inches() * 150).round().astype(int)) and pixels.std() > 5


def test_learning_curves(tmp_path):
    other = [row | {"train/loss": 9.0} if "train/loss" in row else {"step": 3, "validation/loss": 8.0} for row in ROWS]
    runs = {"a": workdir(tmp_path / "a", ROWS, torn=True), "b": workdir(tmp_path / "b", other)}
    drawn = plots.learning_curves(runs, tmp_path / "new" / "curves.png", title="Loss")
    (axes,) = drawn.axes
    lines = [line.get_xydata().tolist() for line in axes.lines]
    assert lines == [[[1, 3.0], [3, 2.0]], [[3, 2.5]], [[1, 9.0], [2, 9.0], [3, 9.0]], [[3, 8.0]]]
    assert axes.get_xlabel().startswith("optimizer steps") and axes.get_ylabel() == "loss (nats a token)"
    assert {text.get_text(): text.xy for text in axes.texts} == {"a": (3, 2.5), "b": (3, 8.0)}
    assert axes.get_xlim()[0] == 0 and drawn.get_suptitle() == "Loss"
    is_picture(tmp_path / "new" / "curves.png", drawn)


def test_learning_curves_of_wrong_workdirs(tmp_path):
    with pytest.raises(errors.DataError, match="metrics.jsonl cannot be read"):
        plots.learning_curves({"a": tmp_path / "none"}, tmp_path / "x.png")
    with pytest.raises(errors.DataError, match="neither train/bleu nor validation/bleu"):
        plots.learning_curves({"a": workdir(tmp_path / "a", ROWS)}, tmp_path / "x.png", figure="bleu")
    (tmp_path / "a" / "metrics.jsonl").write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(errors.DataError, match="metrics.jsonl:2 is not a row"):
        plots.learning_curves({"a": tmp_path / "a"}, tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_ranks(tmp_path):
    series = {"LoRA": {16: [88.0], 4: [1.0, 3.0, 5.0]}, "LoRA+": {4: [10.0, 20.0]}}
    parameters = {"LoRA": {4: 36_864, 16: 147_456}, "LoRA+": {4: 36_864}}
    drawn = plots.ranks(series, tmp_path / "ranks.png", parameters=parameters, paper={4: 0.2, 16: 88.0})
    left, right = drawn.axes
    for axes, places in ((left, {4: 4, 16: 16}), (right, parameters["LoRA"])):
        line, caps, (bars,) = axes.containers[0]
        assert line.get_xydata().tolist() == [[places[4], 3.0], [places[16], 88.0]]
        ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
        assert ends == [[3 - statistics.stdev([1, 3, 5]), 3 + statistics.stdev([1, 3, 5])], [88, 88]]
    (paper,) = [line for line in left.lines if line.get_linestyle() == "--"]
    assert paper.get_xydata().tolist() == [[4, 0.2], [16, 88.0]] and left.texts[0].get_text() == "paper"
    assert left.get_xscale() == "log" and [t.get_text() for t in left.get_xticklabels()] == ["4", "16"]
    assert {text.get_text(): text.xy for text in right.texts} == {"LoRA": (147_456, 88.0), "LoRA+": (36_864, 15.0)}
    is_picture(tmp_path / "ranks.png", drawn)


@pytest.mark.parametrize("lower, best", [(True, 4e-3), (False, 1e-3)])
def test_lines_over_the_rate_have_their_names_beside_their_best_points(lower, best, tmp_path):
    curves = {name: {4e-3: last, 1e-3: 2.0} for name, last in (("LoRA", 0.5), ("DoRA", 0.5), ("IA3", 1.9))}
    drawn = plots.by_rate(curves, tmp_path / "rate.png", label="loss", lower=lower)
    (axes,) = drawn.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert {text.get_text(): text.xy for text in axes.texts} == {name: (best, c[best]) for name, c in curves.items()}
    is_picture(tmp_path / "rate.png", drawn)


def test_rows(tmp_path):
    lines = {
        "whole": {"size": 4, "score": {"ours": [60.0, 70.0], "paper": 61.0}},
        "small": {"size": 1, "score": {"paper": 50.0}},
        "none": {},
    }
    columns = {"size": ("size (MB)", 1), "score": ("accuracy (%)", 0)}
    look = dict(columns=columns, dots=["score"], faded=["whole"], title="Title")
    drawn = plots.rows(lines, tmp_path / "rows.png", **look)
    bars, marks = drawn.axes
    assert [bar.get_width() for bar in bars.patches] == [4, 1] and bars.get_xlim()[0] == 0
    assert bars.patches[0].get_facecolor() != bars.patches[1].get_facecolor()
    assert [c[0].get_xdata().tolist() for c in marks.containers] == [[65], [61], [50]]
    assert [text.get_text() for text in marks.texts] == ["65", "61", "50"]
    (error,) = marks.containers[0][2]
    assert error.get_segments()[0][:, 0].tolist() == pytest.approx([65 - 50**0.5, 65 + 50**0.5])
    assert [label.get_text() for label in bars.get_yticklabels()] == [*lines]
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["ours", "paper"]
    is_picture(tmp_path / "rows.png", drawn)


def test_bars(tmp_path):
    groups = {"sort": {"ours": [60.0, 70.0], "paper": 86}, "+1": {"ours": [90.0, 94.0]}}
    drawn = plots.bars(groups, tmp_path / "bars.png", label="exact match (%)")
    ours, paper = [[bar.get_height() for bar in c] for c in drawn.axes[0].containers if hasattr(c, "patches")]
    assert ours == [65, 92] and paper == [86]
    assert {text.get_text() for text in drawn.axes[0].texts} == {"65.0", "92.0", "86.0"}
    assert [label.get_text() for label in drawn.axes[0].get_xticklabels()] == ["sort", "+1"]
    is_picture(tmp_path / "bars.png", drawn)
