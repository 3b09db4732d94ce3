"""The picture of sizes and scores draws what it is given."""

from studies.embbert import sizes_plot


def test_sizes_and_scores(tmp_path):
    panels = {"A": {"ours": {"large": [60.0, 70.0]}, "paper": {"small": 50.0, "large": 61.0}}, "B": {"ours": {}}}
    sizes = dict(weights={"small": 1000, "large": 2000}, activations={"small": 500, "large": 400})
    drawn = sizes_plot.sizes_and_scores(panels, tmp_path / "sizes.png", **sizes)
    left, right, scale, empty = drawn.axes
    assert (
        [bar.get_height() for bar in left.patches] == [1000, 2000, 500, 400] == [b.get_height() for b in right.patches]
    )
    assert [c[0].get_xydata().tolist() for c in scale.containers] == [[[1, 65.0]], [[0, 50.0], [1, 61.0]]]
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["A", "B"]
    assert [label.get_text() for label in left.get_xticklabels()] == ["small", "large"]
    assert {text.get_text() for text in drawn.legends[0].get_texts()} == {"weights", "activations", "ours", "paper"}
    assert (tmp_path / "sizes.png").stat().st_size > 10_000
