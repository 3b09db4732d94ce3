"""Pictures of maps and of confusions: what is on them."""

import numpy as np

from lwt.data import sources
from studies.radar import plots


def test_examples_come_by_class_with_one_scale_for_all(tmp_path, monkeypatch):
    monkeypatch.setenv("LWT_CACHE", str(tmp_path))
    source = sources.load("generated:radar_har,difficulty=easy,size=10@test")
    found = plots.examples(source)
    assert list(found) == list(source.classes) and {len(images) for images in found.values()} == {1}
    drawn = plots.maps(found, tmp_path / "maps/one.png", title="x", extent=(0, 4, -4, 4), xlabel="seconds")
    panels = [axes for axes in drawn.axes if axes.images]
    assert [axes.get_title(loc="left") for axes in panels] == [name.replace("_", " ") for name in source.classes]
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    np.testing.assert_array_equal(panels[3].images[0].get_array(), source[3]["image"][..., 0])
    assert (tmp_path / "maps/one.png").stat().st_size > 10_000


def test_a_confusion_matrix_counts(tmp_path):
    drawn = plots.confusion([0, 0, 0, 1, 2], [0, 0, 1, 1, 0], names=("a", "b_b", "c"), path=tmp_path / "c.png")
    (axes,) = drawn.axes
    shown = {tuple(map(int, text.get_position())): int(text.get_text()) for text in axes.texts}
    assert shown == {(0, 0): 2, (1, 0): 1, (1, 1): 1, (0, 2): 1}  # (answer, activity)
    np.testing.assert_allclose(axes.images[0].get_array(), [[2 / 3, 1 / 3, 0], [0, 1, 0], [1, 0, 0]])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b b", "c"]
